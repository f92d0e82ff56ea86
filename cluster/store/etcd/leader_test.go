package etcd_test

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/cluster/store/etcd"
	"github.com/phos-gpu/phos/cluster/store/etcd/server/servertest"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/tests/harness"
)

// campaign leads, or ends the test.
func campaign(t *testing.T, s *etcd.Store, name string) store.Leadership {
	t.Helper()
	leads, err := s.Campaign(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return leads
}

// TestFrozenLeader: a leader that stands still is replaced, but not before the time that it was
// told. When it goes on it knows that it has lost, and cannot write.
func TestFrozenLeader(t *testing.T) {
	t.Parallel()
	s := inProcess(t, servertest.Config(t))
	frozen := startCandidate(t, s.Endpoint())
	var epoch, least int64
	frozen.says(&epoch, &least)
	frozen.freeze()
	next := open(t, etcd.Config{Endpoints: []string{s.Endpoint()}, Lease: shortLease})
	name, at, err := next.Leader(t.Context())
	late := int64(boottime.Now()) >= least && errors.Is(err, store.ErrNotFound) // its lease is over
	if !late && (err != nil || name != "candidate" || int64(at) != epoch) {
		t.Fatalf("%q leads at %d, %v", name, at, err)
	}
	leads := campaign(t, next, "next")
	won := boottime.Now()
	if int64(leads.Epoch()) <= epoch {
		t.Errorf("epoch %d after %d", leads.Epoch(), epoch)
	}
	frozen.signal(unix.SIGCONT)
	if until := frozen.ended(); won < until {
		t.Errorf("two led: the next from %v, the one before until %v", won, until)
	}
	if _, err := next.Get(t.Context(), "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the leader that was replaced has written: %v", err)
	}
}

// TestFrozenStore: a leader ends by itself while etcd stands still, and another one can follow it.
func TestFrozenStore(t *testing.T) {
	t.Parallel()
	process := servertest.Start(t, servertest.Config(t))
	config := etcd.Config{Endpoints: []string{process.Endpoint()}, Lease: shortLease, Timeout: shortLease / 4}
	first, other := open(t, config), open(t, config)
	patient := open(t, etcd.Config{Endpoints: config.Endpoints, Timeout: harness.Patience})
	revision, err := patient.Put(t.Context(), store.Write{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	leads := campaign(t, first, "first")
	process.Freeze(t)
	unavailable(t, first)
	<-leads.Lost()
	until := leads.Until()
	if now := boottime.Now(); now < until {
		t.Errorf("lost at %v, before %v", now, until)
	}
	won := make(chan store.Leadership)
	go func() { won <- campaign(t, other, "other") }()
	process.Thaw(t)
	next := <-won
	if now := boottime.Now(); now < until || next.Epoch() <= leads.Epoch() {
		t.Errorf("the next leads from %v, epoch %d, after %v, epoch %d", now, next.Epoch(), until, leads.Epoch())
	}
	late := store.Write{Key: "a", Replaces: revision, Epoch: leads.Epoch()}
	if _, err := patient.Put(t.Context(), late); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("a write of the first leader: %v", err)
	}
	if leads.Until() != until {
		t.Error("the end of a leadership has changed")
	}
}

// unavailable fails the test unless each call of a store ends by itself.
func unavailable(t *testing.T, s *etcd.Store) {
	t.Helper()
	_, getErr := s.Get(t.Context(), "a")
	_, _, listErr := s.List(t.Context(), "")
	_, putErr := s.Put(t.Context(), store.Write{Key: "b"})
	deleteErr := s.Delete(t.Context(), store.Write{Key: "a", Replaces: 1})
	_, _, leaderErr := s.Leader(t.Context())
	for _, err := range []error{getErr, listErr, putErr, deleteErr, leaderErr} {
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a store that does not answer: %v", err)
		}
	}
}
