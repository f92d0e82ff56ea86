package capture

import (
	"errors"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// TestWrittenAfterCut: a program that rewrites and unmaps everything right after the cut changes
// nothing of the image, with much and with hardly any memory for copies.
func TestWrittenAfterCut(t *testing.T) {
	for name, budget := range map[string]uint64{"much": 1 << 30, "one chunk": 1} {
		t.Run(name, func(t *testing.T) {
			m := openMachine(t, specs["marks"], 60)
			target, c := newShelf(), New(m.sources)
			for round := range byte(4) {
				must(t, fillAll(m, 1+round))
				s, err := c.Begin(target, Options{BudgetBytes: budget})
				must(t, err)
				must(t, s.Precopy(t.Context()))
				must(t, fillAll(m, 101+round))
				must(t, s.Cut(t.Context()))
				want := m.contents()
				if stats := s.Stats(); stats.GuardedBytes != stats.CutBytes || stats.CutBytes != 60*gpu.ChunkBytes {
					t.Errorf("guarded %d of %d bytes", stats.GuardedBytes, stats.CutBytes)
				}
				stop := m.scribble(2)
				entries, err := s.Finish(t.Context())
				must(t, err)
				stop()
				m.same("image", m.saved(target, entries), want)
			}
		})
	}
}

// TestUnmappedAfterCut: memory that is unmapped, or shared, before it was saved is in the image.
func TestUnmappedAfterCut(t *testing.T) {
	m := openMachine(t, specs["marks"], 20)
	target, c := newShelf(), New(m.sources)
	must(t, fillAll(m, 1))
	s, err := c.Begin(target, Options{BudgetBytes: 4 * gpu.ChunkBytes})
	must(t, err)
	must(t, s.Precopy(t.Context()))
	must(t, fillAll(m, 2))
	must(t, s.Cut(t.Context()))
	want := m.contents()
	at := func(i uint64) uint64 { return m.ranges[0].Address + i*gpu.ChunkBytes }
	must(t, m.memory.Unmap(gpu.Range{Address: at(0), Bytes: 8 * gpu.ChunkBytes}))
	must(t, m.memory.Map(gpu.Range{Address: at(2), Bytes: 2 * gpu.ChunkBytes}))
	must(t, write(m, at(2), 9))
	file, _, err := m.memory.(gpu.Sharer).Share(gpu.Range{Address: at(10), Bytes: 2 * gpu.ChunkBytes})
	must(t, err)
	defer file.Close()
	must(t, write(m, at(10), 9))
	entries, err := s.Finish(t.Context())
	must(t, err)
	m.same("image", m.saved(target, entries), want)
}

// TestGuardFailures: a write that cannot be saved fails the checkpoint and not the program, and
// after a checkpoint that is given up the next one is complete.
func TestGuardFailures(t *testing.T) {
	m := openMachine(t, specs["marks"], 30)
	target, c := newShelf(), New(m.sources)
	full := errors.New("the disk is full")
	for _, finish := range []bool{true, false} {
		must(t, fillAll(m, 1))
		s, err := c.Begin(target, Options{BudgetBytes: 1})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, fillAll(m, 2))
		must(t, s.Cut(t.Context()))
		target.fail = full
		must(t, fillAll(m, 3))
		if finish {
			if _, err := s.Finish(t.Context()); !errors.Is(err, full) {
				t.Errorf("finish: %v", err)
			}
		}
		s.Abort()
		target.fail = nil
		m.take(c, target, Options{})
	}
}

// TestAbortWhileWritten: a checkpoint is given up while kernels wait for what it saves.
func TestAbortWhileWritten(t *testing.T) {
	m := openMachine(t, specs["marks"], 30)
	target, c := newShelf(), New(m.sources)
	for range 5 {
		must(t, fillAll(m, 1))
		s, err := c.Begin(target, Options{BudgetBytes: 1})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		must(t, fillAll(m, 2))
		must(t, s.Cut(t.Context()))
		stop := m.scribble(2)
		var aborted sync.WaitGroup
		aborted.Go(s.Abort)
		aborted.Wait()
		stop()
		m.take(c, target, Options{})
	}
}

// TestDiskHangs: the disk hangs while kernels and Finish save chunks. The kernels go on when the
// checkpoint is given up, and the chunks that the disk writes late are not taken for saved ones.
func TestDiskHangs(t *testing.T) {
	const streams = 3
	m := openMachine(t, specs["marks"], 30)
	target := newShelf()
	c := New(m.sources)
	must(t, fillAll(m, 1))
	s, err := c.Begin(target, Options{BudgetBytes: 1})
	must(t, err)
	must(t, s.Precopy(t.Context()))
	must(t, fillAll(m, 2))
	must(t, s.Cut(t.Context()))

	target.arrived, target.hung = make(chan struct{}, 30), make(chan struct{})
	var finished sync.WaitGroup
	finished.Go(func() {
		if _, err := s.Finish(t.Context()); err == nil {
			t.Error("finished without a disk")
		}
	})
	stop := m.scribble(streams)
	for range streams + 1 { // that one stores nothing more is what is tested
		<-target.arrived
	}
	s.GiveUp()
	stop()
	must(t, fillAll(m, 3))
	close(target.hung)
	finished.Wait()
	m.take(c, target, Options{})
}

// TestRewrittenIsNotCopied: what is rewritten before each cut is not copied in advance, until it is
// no longer rewritten.
func TestRewrittenIsNotCopied(t *testing.T) {
	const all = 40 * gpu.ChunkBytes
	m := openMachine(t, specs["marks"], 40)
	target, c := newShelf(), New(m.sources)
	for round, each := range []struct {
		rewritten   bool
		copied, cut uint64
	}{
		{rewritten: true, copied: all, cut: all},
		{rewritten: true, copied: 0, cut: all}, // learnt
		{rewritten: true, copied: 0, cut: all},
		{rewritten: false, copied: 0, cut: all}, // not known yet
		{rewritten: false, copied: all, cut: 0},
		{rewritten: true, copied: all, cut: all},
	} {
		must(t, fillAll(m, byte(2*round+1)))
		s, err := c.Begin(target, Options{})
		must(t, err)
		must(t, s.Precopy(t.Context()))
		if each.rewritten {
			must(t, fillAll(m, byte(2*round+2)))
		}
		must(t, s.Cut(t.Context()))
		want := m.contents()
		entries, err := s.Finish(t.Context())
		must(t, err)
		m.same("image", m.saved(target, entries), want)
		if stats := s.Stats(); stats.CopiedBytes != each.copied || stats.CutBytes != each.cut {
			t.Errorf("round %d: copied %d, cut %d; want %+v", round, stats.CopiedBytes>>20, stats.CutBytes>>20, each)
		}
	}
}
