package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Some drivers wait for all work before they take memory back, and work may wait for a word that the program's next call writes. So
// whoever handles the program's calls never asks for that while anything is at work: what is freed then is kept (gpu.Keeper), or put
// off, until all GPUs rest.

// leisure is what is put off until all GPUs rest.
type leisure struct {
	// keeps says that there is a device that keeps what it cannot give back yet.
	keeps atomic.Bool
	// watched: somebody waits for a rest.
	watched atomic.Bool
	// frees counts what will be freed when work is done that was submitted.
	frees atomic.Int64

	mu    sync.Mutex
	later []func()
	bytes uint64 // of pinned memory among it
}

func (l *leisure) put(bytes uint64, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = append(l.later, do)
	l.bytes += bytes
}

func (l *leisure) take() (later []func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	later, l.later, l.bytes = l.later, nil, 0
	return later
}

// pinned is how much pinned memory is freed, and not given back yet.
func (l *leisure) pinned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

func (l *leisure) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.later) == 0
}

// keepers are the memories that keep what is freed. It needs no lock.
func (s *Session) keepers() (keepers []gpu.Keeper) {
	if !s.leisure.keeps.Load() {
		return nil
	}
	for _, d := range s.devices {
		if c := d.opened.Load(); c != nil {
			if k, is := (*c).Memory().(gpu.Keeper); is {
				keepers = append(keepers, k)
			}
		}
	}
	return keepers
}

// untidy reports whether anything waits for a rest. It needs no lock.
func (s *Session) untidy() bool {
	for _, k := range s.keepers() {
		if k.Kept() > 0 {
			return true
		}
	}
	return !s.leisure.empty()
}

// rests reports whether nothing is at work on any GPU.
func (s *Session) rests() bool {
	for _, c := range s.contexts {
		if len(c.busy()) > 0 {
			return false
		}
	}
	for c := range s.ending {
		if len(c.busy()) > 0 {
			return false
		}
	}
	return true
}

// restsWithin waits for a rest with the lock held, in which nothing new comes: so not for long, as what is at work may wait for that.
func (s *Session) restsWithin(most time.Duration) bool {
	for begun := time.Now(); !s.rests(); {
		if time.Since(begun) >= most {
			return false
		}
		<-time.After(100 * time.Microsecond)
	}
	return true
}

// longestHold is how long the program's calls are held up at most, at a time, so that its GPUs come to rest.
const longestHold = time.Second

// atRest does something with the lock when nothing is at work on any GPU. A program that always has something there is held up for
// longer and longer. It is called without the lock.
func (s *Session) atRest(do func() error) error {
	for hold := time.Duration(0); ; hold = min(2*hold+time.Millisecond, longestHold) {
		done, err := s.ifRests(hold, do)
		if done {
			return err
		}
		s.mu.Lock()
		busy, letGo := s.holdBusy()
		s.mu.Unlock()
		await(busy, letGo)
	}
}

// ifRests does something with the lock, if the GPUs come to rest soon.
func (s *Session) ifRests(soon time.Duration, do func() error) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return true, abi.Deinitialized
	case !s.restsWithin(soon):
		return false, nil
	}
	return true, do()
}

// tidy gives back what was freed, now that the GPUs rest: all of it, or some.
func (s *Session) tidy(all bool) (done bool) {
	for _, do := range s.leisure.take() {
		do()
	}
	done = true
	for _, k := range s.keepers() {
		for {
			given, err := k.GiveBack()
			if err != nil {
				s.log.Warn("give memory back", "error", err)
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

// How freed memory is given back.
const (
	// grace is how long memory that is freed stays for the program's next allocations, while its GPUs rest.
	grace = 20 * time.Millisecond
	// longestLook is between two looks whether they do.
	longestLook = 200 * time.Millisecond
	// longestGrace is how long pinned memory waits for a rest that comes by itself.
	longestGrace = 2 * time.Second
)

// freed comes after everything that may have left something for a rest. It needs no lock.
func (s *Session) freed() {
	if s.leisure.keeps.Load() && s.untidy() && !s.leisure.watched.Swap(true) {
		go s.watchRests()
	}
}

// watchRests tidies up at the next rest. Pinned memory, which nothing can use before, is worth holding up a program that never rests.
func (s *Session) watchRests() {
	begun, look, hold := time.Now(), grace, time.Duration(0)
	for {
		select {
		case <-s.ended:
			return
		case <-time.After(look):
		}
		done := false
		rested, _ := s.ifRests(hold, func() error {
			if done = s.tidy(false); done {
				s.leisure.watched.Store(false) // who frees something after this starts anew
			}
			return nil
		})
		switch {
		case done:
			return
		case rested:
			look = time.Millisecond
		default:
			look = min(2*look, longestLook)
			if time.Since(begun) > longestGrace && !s.leisure.empty() {
				hold = min(2*hold+time.Millisecond, longestHold)
			}
		}
	}
}

// hopes reports whether memory will be free that is not yet.
func (s *Session) hopes() bool { return s.leisure.frees.Load() > 0 || len(s.ending) > 0 || s.untidy() }

// persist makes an attempt at memory. When there is none, but something is freed that is not given back yet, it waits for that and
// tries again.
func (s *Session) persist(call *Call, attempt func() error) error {
	err := attempt()
	if !errors.Is(err, abi.OutOfMemory) || !s.hopes() {
		return err
	}
	return s.behind(call, func() error {
		s.tidy(true)
		if err = attempt(); !errors.Is(err, abi.OutOfMemory) {
			return err
		}
		for _, k := range s.keepers() {
			if k.Kept() == 0 {
				continue
			}
			if failed := k.Compact(); failed != nil {
				return failed
			}
			err = attempt()
		}
		return err
	})
}

// behind does something with the lock when the work is done that was submitted before; where devices keep what is freed, when
// all GPUs rest.
func (s *Session) behind(call *Call, do func() error) error {
	keeps := s.leisure.keeps.Load()
	if keeps {
		whatever := do
		do = func() error { // what it has freed need not be kept
			defer s.tidy(true)
			return whatever()
		}
	}
	busy, letGo := s.holdBusy()
	if len(busy) == 0 {
		return do()
	}
	s.leisure.frees.Add(1)
	return call.Beside(func() error {
		defer s.leisure.frees.Add(-1)
		await(busy, letGo)
		if keeps {
			return s.atRest(do)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return do()
	})
}

// holdBusy keeps all streams that have work, until await has waited for them.
func (s *Session) holdBusy() (busy []*stream, letGo []func()) {
	for _, c := range s.contexts {
		if streams := c.busy(); len(streams) > 0 {
			busy = append(busy, streams...)
			letGo = append(letGo, c.hold(streams))
		}
	}
	for c := range s.ending {
		for _, st := range c.busy() {
			busy = append(busy, st)
			st.users.Add(1)
			letGo = append(letGo, st.drop)
		}
	}
	return busy, letGo
}

// await needs no lock.
func await(busy []*stream, letGo []func()) {
	for _, st := range busy {
		_ = st.work.Synchronize() // a fault will be the next call's
	}
	for _, f := range letGo {
		f()
	}
}
