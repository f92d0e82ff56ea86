package reclaim

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
)

// keepers are the memories that keep what is freed. It needs no lock.
func (s *Reclaimer) keepers() (keepers []gpu.Keeper) {
	if !s.Defers() {
		return nil
	}
	for _, d := range s.Devices {
		if c := d.Opened.Load(); c != nil {
			if k, is := (*c).Memory().(gpu.Keeper); is {
				keepers = append(keepers, k)
			}
		}
	}
	return keepers
}

// kept reports whether anything waits for a rest. It needs no lock.
func (s *Reclaimer) kept() bool {
	for _, k := range s.keepers() {
		if k.Kept() > 0 {
			return true
		}
	}
	return !s.state.empty()
}

// idle reports whether nothing is at work on any GPU.
func (s *Reclaimer) idle() bool {
	for _, c := range s.Contexts {
		if len(c.Busy()) > 0 {
			return false
		}
	}
	for c := range s.Ending {
		if len(c.Busy()) > 0 {
			return false
		}
	}
	return true
}

// waitIdle waits for a rest with the lock held, in which nothing new comes: so not for long, as
// what is at work may wait for that.
func (s *Reclaimer) waitIdle(most time.Duration) bool {
	for begun := time.Now(); !s.idle(); {
		if time.Since(begun) >= most {
			return false
		}
		<-time.After(100 * time.Microsecond)
	}
	return true
}

// longestHold is how long the program's calls are held up at most, at a time, so that its GPUs come
// to rest.
const maxHold = time.Second

// WhenIdle does something with the lock when nothing is at work on any GPU. A program that always has
// something there is held up for longer and longer. It is called without the lock.
func (s *Reclaimer) WhenIdle(do func() error) error {
	for hold := time.Duration(0); ; hold = min(2*hold+time.Millisecond, maxHold) {
		done, err := s.tryIdle(hold, do)
		if done {
			return err
		}
		s.Mu.Lock()
		busy, letGo := s.holdBusy()
		s.Mu.Unlock()
		await(busy, letGo)
	}
}

// tryIdle does something with the lock, if the GPUs come to rest soon.
func (s *Reclaimer) tryIdle(soon time.Duration, do func() error) (done bool, err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	switch {
	case s.Closed:
		return true, abi.Deinitialized
	case !s.waitIdle(soon):
		return false, nil
	}
	return true, do()
}

// Reclaim gives back what was freed, now that the GPUs rest: all of it, or some.
func (s *Reclaimer) Reclaim(all bool) (done bool) {
	for _, do := range s.state.take() {
		do()
	}
	done = true
	for _, k := range s.keepers() {
		for {
			given, err := k.GiveBack()
			if err != nil {
				s.Log.Warn("give memory back", "error", err)
				break
			}
			if given || !all {
				done = done && given
				break
			}
		}
	}
	return done
}

// AfterAll runs f when everything is done that was submitted so far, on one device or, for nil, on
// all of them. f runs without the lock and must not take it.
func (s *Reclaimer) AfterAll(d *core.Device, f func()) {
	var busy []*core.Stream
	for _, c := range s.Contexts {
		if d != nil && c.Device != d {
			continue
		}
		for _, st := range c.Streams {
			if !st.Idle() {
				busy = append(busy, st)
			}
		}
	}
	if len(busy) == 0 {
		f()
		return
	}
	var left atomic.Int64
	left.Store(int64(len(busy)))
	s.Freeing(1)
	arrive := func() {
		if left.Add(-1) == 0 {
			f()
			s.Freeing(-1)
		}
	}
	for _, st := range busy {
		if st.Submit(gpu.Tell{Func: arrive}) != nil {
			arrive()
		}
	}
}

// How freed memory is given back.
const (
	// grace is how long memory that is freed stays for the program's next allocations, while its GPUs
	// rest.
	grace = 20 * time.Millisecond
	// longestLook is between two looks whether they do.
	maxLook = 200 * time.Millisecond
	// longestGrace is how long pinned memory waits for a rest that comes by itself.
	maxGrace = 2 * time.Second
	// owedTime is how long to wait for memory that other programs have freed, and owedLook between two
	// looks.
	owedTime, owedLook = 2 * time.Second, 5 * time.Millisecond
)

// Freed comes after everything that may have left something for a rest. It needs no lock.
func (s *Reclaimer) Freed() {
	if !s.Defers() || !s.kept() {
		return
	}
	s.state.more.Store(true)
	if !s.state.watched.Swap(true) {
		go s.watch()
	}
}

// watch tidies up in rests, as long as there is anything. What others want, and pinned memory,
// which nothing can use before, is worth holding up a program that never rests.
func (s *Reclaimer) watch() {
	look, hold, since := grace, time.Duration(0), time.Now()
	for {
		select {
		case <-s.Ended:
			return
		case <-time.After(look):
		}
		wanted := s.wanted()
		look = min(2*look, maxLook)
		switch {
		case wanted:
			look = owedLook
			hold = min(2*hold+time.Millisecond, maxHold)
		case !s.state.more.Load():
			since, hold = time.Now(), 0 // what is left lies beside what is used
		case time.Since(since) > maxGrace && !s.state.empty():
			hold = min(2*hold+time.Millisecond, maxHold)
		}
		if !wanted && !s.state.more.Load() && s.kept() {
			continue
		}
		over := false
		rested, _ := s.tryIdle(hold, func() error {
			if over = s.reclaimSome(wanted); over {
				s.state.watched.Store(false) // who frees something after this starts anew
			}
			return nil
		})
		if over {
			return
		}
		if rested {
			hold = 0
			if s.state.more.Load() {
				look = time.Millisecond
			}
		}
	}
}

// reclaimSome tidies up for a moment, or for others, and reports whether nothing is left.
func (s *Reclaimer) reclaimSome(wanted bool) (over bool) {
	s.state.more.Store(false)
	if !s.Reclaim(wanted) {
		s.state.more.Store(true)
	}
	if wanted {
		if err := s.compact(); err != nil {
			s.Log.Warn("give memory to others", "error", err)
		}
	}
	return !s.kept()
}

// wanted reports whether other processes need what is kept.
func (s *Reclaimer) wanted() bool {
	return slices.ContainsFunc(s.keepers(), gpu.Keeper.Wanted)
}

// compact gives back what is kept beside what is used.
func (s *Reclaimer) compact() error {
	for _, k := range s.keepers() {
		if err := k.Compact(); err != nil {
			return err
		}
	}
	return nil
}

// AfterWork does something with the lock when the work is done that was submitted before; where
// devices keep what is freed, when all GPUs rest.
func (s *Reclaimer) AfterWork(call *core.Call, do func() error) error {
	keeps := s.Defers()
	if keeps {
		whatever := do
		do = func() error { // what it has freed need not be kept
			defer s.Reclaim(true)
			return whatever()
		}
	}
	busy, letGo := s.holdBusy()
	if len(busy) == 0 {
		return do()
	}
	s.Freeing(1)
	return call.Beside(func() error {
		defer s.Freeing(-1)
		await(busy, letGo)
		if keeps {
			return s.WhenIdle(do)
		}
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return do()
	})
}

// holdBusy keeps all streams that have work, until await has waited for them.
func (s *Reclaimer) holdBusy() (busy []*core.Stream, letGo []func()) {
	for _, c := range s.Contexts {
		if streams := c.Busy(); len(streams) > 0 {
			busy = append(busy, streams...)
			letGo = append(letGo, c.Hold(streams))
		}
	}
	for c := range s.Ending {
		for _, st := range c.Busy() {
			busy = append(busy, st)
			st.Users.Add(1)
			letGo = append(letGo, st.Drop)
		}
	}
	return busy, letGo
}

// await needs no lock.
func await(busy []*core.Stream, letGo []func()) {
	for _, st := range busy {
		_ = st.Work.Synchronize() // a fault will be the next call's
	}
	for _, f := range letGo {
		f()
	}
}
