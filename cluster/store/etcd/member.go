package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
)

// ReplaceMember lets a member that has lost its disk come back with an empty one (server.Join):
// what it was is removed, and a new member with its address is expected. The other members must be
// a majority without it. If it fails, it may be called again.
func (s *Store) ReplaceMember(ctx context.Context, name, peerURL string) error {
	var listed *clientv3.MemberListResponse
	err := s.call(ctx, func(ctx context.Context) (err error) {
		listed, err = s.client.MemberList(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("list the members of the store: %w", err)
	}
	for _, m := range listed.Members {
		if m.Name == "" && len(m.PeerURLs) == 1 && m.PeerURLs[0] == peerURL {
			return nil // it is expected already, and gets its name by its first start
		}
		if m.Name != name {
			continue
		}
		if err := s.call(ctx, func(ctx context.Context) error {
			_, err := s.client.MemberRemove(ctx, m.ID)
			return err
		}); err != nil {
			return fmt.Errorf("remove member %s of the store: %w", name, err)
		}
	}
	if err := s.addMember(ctx, peerURL); err != nil {
		return fmt.Errorf("add member %s to the store: %w", name, err)
	}
	return nil
}

// steadyTime is how long members may take to find that they are connected: etcd adds none before
// they have been for five seconds.
const steadyTime = 20 * time.Second

// addMember adds a member, as soon as the others are ready for that.
func (s *Store) addMember(ctx context.Context, peerURL string) error {
	limited, cancel := context.WithTimeout(ctx, steadyTime)
	defer cancel()
	for {
		err := s.call(ctx, func(ctx context.Context) error {
			_, err := s.client.MemberAdd(ctx, []string{peerURL})
			return err
		})
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-limited.Done():
			return err
		case <-time.After(retryTime):
		}
	}
}
