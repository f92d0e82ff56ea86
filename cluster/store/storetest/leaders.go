package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// campaign leads by another client, or ends the test.
func (f *fixture) campaign(s store.Store, name string) store.Leadership {
	f.Helper()
	leads, err := s.Campaign(f.ctx, name)
	if err != nil {
		f.Fatal(err)
	}
	return leads
}

// leaderIs fails the test unless all clients see a leader.
func (f *fixture) leaderIs(name string, epoch store.Epoch) {
	f.Helper()
	for _, s := range []store.Store{f.store, f.another()} {
		if got, at, err := s.Leader(f.ctx); err != nil || got != name || at != epoch {
			f.Errorf("the leader is %q at %d, %v; want %q at %d", got, at, err, name, epoch)
		}
	}
}

// noLeader: a new store has none, and refuses all epochs.
func noLeader(f *fixture) {
	_, _, err := f.store.Leader(f.ctx)
	f.refused("the leader of a new store", err, store.ErrNotFound)
	for _, epoch := range []store.Epoch{1, -1, 1 << 62} {
		_, err = f.store.Put(f.ctx, store.Write{Key: "a", Epoch: epoch})
		f.refused("an epoch without a leader", err, store.ErrDeposed)
	}
}

// oneLeads: a second candidate waits until the first resigns, a third until the second does.
func oneLeads(f *fixture) {
	first := f.campaign(f.another(), "a:1")
	f.leaderIs("a:1", first.Epoch())
	won := make(chan store.Leadership, 2)
	for _, name := range []string{"b:1", "c:1"} {
		s := f.another()
		go func() {
			if leads, err := s.Campaign(f.ctx, name); err == nil {
				won <- leads
			}
		}()
	}
	revision, err := f.store.Put(f.ctx, store.Write{Key: "a", Epoch: first.Epoch()}) // by any client
	if err != nil {
		f.Fatal(err)
	}
	select {
	case <-won:
		f.Fatal("two lead")
	case <-first.Lost():
		f.Fatal("the first has lost its leadership")
	default:
	}
	if err := first.Resign(f.ctx); err != nil {
		f.Fatal(err)
	}
	second := f.next(won)
	if second.Epoch() <= first.Epoch() || second.Epoch() <= store.Epoch(revision) {
		f.Errorf("epoch %d after %d", second.Epoch(), first.Epoch())
	}
	if err := second.Resign(f.ctx); err != nil {
		f.Fatal(err)
	}
	if third := f.next(won); third.Epoch() <= second.Epoch() {
		f.Errorf("epoch %d after %d", third.Epoch(), second.Epoch())
	}
}

// next waits for the next leadership.
func (f *fixture) next(won <-chan store.Leadership) store.Leadership {
	f.Helper()
	select {
	case leads := <-won:
		return leads
	case <-f.ctx.Done():
		f.Fatal("none leads")
		return nil
	}
}

// resignedWritesNothing: the epoch of a leader that has resigned is worth nothing.
func resignedWritesNothing(f *fixture) {
	s := f.another()
	leads := f.campaign(s, "a")
	write := store.Write{Key: "a", Value: []byte("1"), Epoch: leads.Epoch()}
	var err error
	if write.Replaces, err = s.Put(f.ctx, write); err != nil {
		f.Fatal(err)
	}
	for range 2 { // twice is the same
		if err := leads.Resign(f.ctx); err != nil {
			f.Fatal(err)
		}
		<-leads.Lost()
	}
	_, _, err = f.store.Leader(f.ctx)
	f.refused("the leader after it resigned", err, store.ErrNotFound)
	_, err = s.Put(f.ctx, write)
	f.refused("a write of a leader that resigned", err, store.ErrDeposed)
	f.refused("a removal", s.Delete(f.ctx, write), store.ErrDeposed)
	f.holds("a", "1", write.Replaces)
	write.Epoch = f.campaign(s, "a").Epoch() // the same client leads again
	if _, err := s.Put(f.ctx, write); err != nil {
		f.Error(err)
	}
}

// deposedFirst: a writer with an old epoch is told so, whatever revision it names.
func deposedFirst(f *fixture) {
	first := f.campaign(f.another(), "a")
	revision := f.put("a", "1", store.New)
	if err := first.Resign(f.ctx); err != nil {
		f.Fatal(err)
	}
	second := f.campaign(f.another(), "b")
	for _, replaces := range []store.Revision{revision, store.New, revision + 1} {
		old := store.Write{Key: "a", Replaces: replaces, Epoch: first.Epoch()}
		_, err := f.store.Put(f.ctx, old)
		f.refused("an old epoch", err, store.ErrDeposed)
		if replaces != store.New {
			f.refused("an old epoch", f.store.Delete(f.ctx, old), store.ErrDeposed)
		}
	}
	_, err := f.store.Put(f.ctx, store.Write{Key: "a", Epoch: second.Epoch()})
	f.refused("the newest epoch", err, store.ErrConflict)
	f.holds("a", "1", revision)
}

// leadershipIsRenewed: a leadership goes on after the time at which it would have ended. One that
// ends was not renewed in time, because the machine stood still; a longer lease gives it more.
func leadershipIsRenewed(f *fixture) {
	for lease := f.Lease; !f.isRenewed(lease); lease *= 2 {
		if lease > 8*f.Lease {
			f.Fatalf("not even a lease of %v was renewed", lease)
		}
	}
}

// isRenewed reports whether a leadership lasts longer than its lease.
func (f *fixture) isRenewed(lease time.Duration) bool {
	f.Helper()
	before := boottime.Now()
	leads := f.campaign(f.client(lease), "a")
	first := leads.Until()
	if first <= before || first > boottime.Now()+lease {
		f.Errorf("at %v a leadership of %v until %v", before, lease, first)
	}
	alarm, err := boottime.NewAlarm()
	if err != nil {
		f.Fatal(err)
	}
	defer alarm.Close()
	if err := errors.Join(alarm.Set(first), alarm.Wait()); err != nil {
		f.Fatal(err)
	}
	name, epoch, err := f.store.Leader(f.ctx)
	select {
	case <-leads.Lost():
		return false
	default:
	}
	now, until := boottime.Now(), leads.Until()
	if until <= now {
		return false
	}
	if until > now+lease {
		f.Errorf("at %v it leads until %v", now, until)
	}
	if err != nil || name != "a" || epoch != leads.Epoch() {
		f.Errorf("the leader is %q at %d, %v; want a at %d", name, epoch, err, leads.Epoch())
	}
	return true
}

// campaignIsGivenUp: a candidate whose context has ended does not lead later.
func campaignIsGivenUp(f *fixture) {
	leads := f.campaign(f.another(), "a")
	ctx, cancel := context.WithCancel(f.ctx)
	given := make(chan error, 1)
	s := f.another()
	go func() {
		_, err := s.Campaign(ctx, "b")
		given <- err
	}()
	f.leaderIs("a", leads.Epoch())
	cancel()
	f.refused("a campaign whose context ended", <-given, context.Canceled)
	if err := leads.Resign(f.ctx); err != nil {
		f.Fatal(err)
	}
	if name, _, err := f.store.Leader(f.ctx); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("%q leads, which had given up: %v", name, err)
	}
}
