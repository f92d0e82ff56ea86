package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/words"
)

const (
	// guardTime is how often a server looks whether it is full.
	guardTime = 2 * time.Second
	// guardTimeout is for a compaction of a database that is full.
	guardTimeout = time.Minute
	// usedShare is how much of the quota objects may have for more writes to make sense.
	usedShare = 0.95
)

// guard makes room when the server is full. While objects need the space it tries again only after
// changes, because only a removal helps.
func (s *Server) guard(ctx context.Context) {
	defer close(s.guards)
	tick := time.NewTicker(guardTime)
	defer tick.Stop()
	for tried := int64(0); ; {
		if at := s.etcd.Server.KV().Rev(); s.Full() && (at != tried || !s.crowded()) {
			err := s.relieve(ctx)
			if errors.Is(err, store.ErrFull) {
				tried = at
			}
			if err != nil && ctx.Err() == nil {
				s.config.Log.Error("store full", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.fault.failed:
			return
		case <-tick.C:
		}
	}
}

// relieve lets the server take writes again, within a time. There may be room already: a write that
// was refused before the last attempt can raise the alarm after it.
func (s *Server) relieve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	if !s.crowded() {
		return s.fault.run(func() error { return s.disarm(ctx) })
	}
	before := s.etcd.Server.Backend().Size()
	if err := s.Reclaim(ctx); err != nil {
		return err
	}
	s.config.Log.Warn("store reclaimed space", "bytes", before-s.etcd.Server.Backend().Size())
	return nil
}

// crowded reports whether the database, free pages included, is near the quota.
func (s *Server) crowded() bool {
	return float64(s.etcd.Server.Backend().Size()) > usedShare*float64(s.config.QuotaBytes)
}

// Full reports whether this member takes no more writes. It stays full, also over a restart, until
// the alarm is taken back.
func (s *Server) Full() bool {
	for _, alarm := range s.etcd.Server.Alarms() {
		if alarm.Alarm == pb.AlarmType_NOSPACE && alarm.MemberID == uint64(s.etcd.Server.MemberID()) {
			return true
		}
	}
	return false
}

// Reclaim forgets the history of changes, gives free pages back to the disk, and lets the server
// take writes again. The error is store.ErrFull if the objects themselves need the space: remove
// some, or start the server with a larger quota. While it runs, nothing is read or written.
func (s *Server) Reclaim(ctx context.Context) error {
	err := s.fault.run(func() error { return s.reclaim(ctx) })
	if err != nil {
		return fmt.Errorf("reclaim space of the store: %w", err)
	}
	return nil
}

// reclaim is Reclaim without the guard against failures of etcd.
func (s *Server) reclaim(ctx context.Context) error {
	etcd := s.etcd.Server
	_, err := etcd.Compact(ctx, &pb.CompactionRequest{Revision: etcd.KV().Rev(), Physical: true})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return err
	}
	if err := etcd.Backend().Defrag(); err != nil {
		return err
	}
	if s.crowded() {
		return fmt.Errorf("%w: objects have %s of %s", store.ErrFull,
			words.Bytes(uint64(etcd.Backend().Size())), words.Bytes(uint64(s.config.QuotaBytes)))
	}
	if !s.Full() {
		return nil
	}
	return s.disarm(ctx)
}

// disarm takes back the alarm of this member.
func (s *Server) disarm(ctx context.Context) error {
	_, err := s.etcd.Server.Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: uint64(s.etcd.Server.MemberID()),
	})
	return err
}
