package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/ticks"
)

// revokeTime is how long a candidate that gives up waits for the end of its lease.
const revokeTime = time.Second

// Leader returns the name of the leader and its epoch, or store.ErrNotFound.
func (s *Store) Leader(ctx context.Context) (string, store.Epoch, error) {
	got, err := s.getLeader(ctx)
	if err == nil && len(got.Kvs) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", store.NoEpoch, fmt.Errorf("find the leader: %w", err)
	}
	return string(got.Kvs[0].Value), store.Epoch(got.Kvs[0].CreateRevision), nil
}

func (s *Store) getLeader(ctx context.Context) (got *clientv3.GetResponse, err error) {
	err = s.call(ctx, func(ctx context.Context) (err error) {
		got, err = s.client.Get(ctx, s.leaderPath())
		return err
	})
	return got, err
}

// Campaign waits until no other leads, and creates the key of the leader.
func (s *Store) Campaign(ctx context.Context, name string) (store.Leadership, error) {
	if err := checkValue([]byte(name)); err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	for silent := false; ; {
		won, err := s.attempt(ctx, name)
		if won != nil {
			return won, nil
		}
		if err == nil {
			continue // another candidate was faster
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) || s.client.Ctx().Err() != nil {
			return nil, fmt.Errorf("campaign: %w", err)
		}
		if !silent {
			silent = true
			s.config.Log.Warn("campaign interrupted", "error", err)
		}
		if err := ticks.Pause(ctx, retryTime); err != nil {
			return nil, fmt.Errorf("campaign: %w", err)
		}
	}
}

// attempt waits until there is no leader, and returns the leadership unless another candidate is
// faster, or the answer comes after the end of the lease. A lease whose fate is unknown is revoked.
// If that fails too, it ends by itself; until then this candidate waits for it as for another
// leader.
func (s *Store) attempt(ctx context.Context, name string) (*leadership, error) {
	if err := s.waitVacant(ctx); err != nil {
		return nil, err
	}
	lease, until, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	epoch, err := s.claim(ctx, name, lease)
	if err == nil && epoch != store.NoEpoch && boottime.Now() < until {
		var won *leadership
		if won, err = s.lead(lease, epoch, until); err == nil {
			return won, nil
		}
	}
	revoking, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTime)
	defer cancel()
	if failure := s.revoke(revoking, lease); err == nil {
		err = failure
	}
	return nil, err
}

// errVacant ends the watch of a leader.
var errVacant = errors.New("there is no leader")

// waitVacant waits until there is no leader.
func (s *Store) waitVacant(ctx context.Context) error {
	for {
		leader, err := s.getLeader(ctx)
		if err != nil || len(leader.Kvs) == 0 {
			return err
		}
		w := watch{store: s, path: s.leaderPath(), after: leader.Header.Revision, deliver: findVacant}
		var stopped stop
		switch err := w.run(ctx); {
		case errors.As(err, &stopped):
			return nil
		case !errors.Is(err, store.ErrCompacted):
			return err
		}
	}
}

func findVacant(changes []store.Change) error {
	for _, change := range changes {
		if change.Deleted {
			return errVacant
		}
	}
	return nil
}

// grant returns a new lease, and until when it lasts at least.
func (s *Store) grant(ctx context.Context) (id clientv3.LeaseID, until time.Duration, err error) {
	sent := boottime.Now()
	var got *clientv3.LeaseGrantResponse
	err = s.call(ctx, func(ctx context.Context) (err error) {
		got, err = s.client.Grant(ctx, int64((s.config.Lease+time.Second-1)/time.Second))
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return got.ID, s.lasts(sent, got.TTL), nil
}

// lasts returns until when a lease lasts whose renewal was sent at a time. One percent is for
// clocks of different speed; etcd counts by its own, from a later time on.
func (s *Store) lasts(sent time.Duration, seconds int64) time.Duration {
	lease := min(s.config.Lease, time.Duration(seconds)*time.Second)
	return sent + lease - lease/100
}

// claim creates the key of the leader. It returns no epoch if there is one already.
func (s *Store) claim(ctx context.Context, name string, lease clientv3.LeaseID) (store.Epoch, error) {
	var done *clientv3.TxnResponse
	err := s.call(ctx, func(ctx context.Context) (err error) {
		done, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.leaderPath()), "=", 0)).
			Then(clientv3.OpPut(s.leaderPath(), name, clientv3.WithLease(lease))).Commit()
		return err
	})
	if err != nil || !done.Succeeded {
		return store.NoEpoch, err
	}
	return store.Epoch(done.Header.Revision), nil
}

// revoke ends a lease, and with it the leadership that belongs to it.
func (s *Store) revoke(ctx context.Context, lease clientv3.LeaseID) error {
	return s.call(ctx, func(ctx context.Context) error {
		_, err := s.client.Revoke(ctx, lease)
		if gone(err) {
			return nil
		}
		return err
	})
}
