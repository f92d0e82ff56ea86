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
	// usedShare is how much of the quota may be in use for more writes to make sense.
	usedShare = 0.95
)

// guard makes room when the server is full, as often as something changes.
func (s *Server) guard(ctx context.Context) {
	defer close(s.guards)
	tick := time.NewTicker(guardTime)
	defer tick.Stop()
	for silent := false; ; {
		if err := s.relieve(ctx); err == nil {
			silent = false
		} else if !silent && ctx.Err() == nil {
			silent = true
			s.config.Log.Error("store full", "error", err)
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

// relieve reclaims space if etcd has raised the alarm that this member is full.
func (s *Server) relieve(ctx context.Context) error {
	if !s.full() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	before := s.etcd.Server.Backend().Size()
	if err := s.Reclaim(ctx); err != nil {
		return err
	}
	s.config.Log.Warn("store reclaimed space", "bytes", before-s.etcd.Server.Backend().Size())
	return nil
}

// full reports whether this member takes no more writes. It stays full, also over a restart, until
// the alarm is taken back.
func (s *Server) full() bool {
	for _, alarm := range s.etcd.Server.Alarms() {
		if alarm.Alarm == pb.AlarmType_NOSPACE && alarm.MemberID == uint64(s.etcd.Server.MemberID()) {
			return true
		}
	}
	return false
}

// Reclaim forgets the history of changes, gives free pages back to the disk, and lets the server take
// writes again. The error is store.ErrFull if the objects themselves need the space: remove some, or
// start the server with a larger quota. While it runs, nothing is read or written.
func (s *Server) Reclaim(ctx context.Context) error {
	err := s.fault.run(func() error { return s.reclaim(ctx) })
	if err != nil {
		return fmt.Errorf("reclaim space of the store: %w", err)
	}
	return nil
}

func (s *Server) reclaim(ctx context.Context) error {
	etcd := s.etcd.Server
	_, err := etcd.Compact(ctx, &pb.CompactionRequest{Revision: etcd.KV().Rev(), Physical: true})
	if err != nil && !errors.Is(err, mvcc.ErrCompacted) {
		return err
	}
	etcd.Backend().ForceCommit() // so that the compaction's pages count as free
	if used := etcd.Backend().SizeInUse(); float64(used) > usedShare*float64(s.config.QuotaBytes) {
		return fmt.Errorf("%w: objects have %s of %s", store.ErrFull,
			words.Bytes(uint64(used)), words.Bytes(uint64(s.config.QuotaBytes)))
	}
	if err := etcd.Backend().Defrag(); err != nil {
		return err
	}
	if !s.full() {
		return nil
	}
	_, err = etcd.Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_DEACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: uint64(etcd.MemberID()),
	})
	return err
}
