package session

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Some drivers wait for all work before they take memory back, and work may wait for a word that
// the program's next call writes. So whoever handles the program's calls never asks for that while
// anything is at work: what is freed then is kept (gpu.Keeper), or put off, until all GPUs rest.

// leisure is what is put off until all GPUs rest.
type leisure struct {
	// keeps says that there is a device that keeps what it cannot give back yet.
	keeps atomic.Bool
	// watched: somebody waits for a rest, in which more can be given back than when he looked last.
	watched, more atomic.Bool
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
	if !s.defers() {
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

// restsWithin waits for a rest with the lock held, in which nothing new comes: so not for long, as
// what is at work may wait for that.
func (s *Session) restsWithin(most time.Duration) bool {
	for begun := time.Now(); !s.rests(); {
		if time.Since(begun) >= most {
			return false
		}
		<-time.After(100 * time.Microsecond)
	}
	return true
}

// longestHold is how long the program's calls are held up at most, at a time, so that its GPUs come
// to rest.
const longestHold = time.Second

// atRest does something with the lock when nothing is at work on any GPU. A program that always has
// something there is held up for longer and longer. It is called without the lock.
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

// defers reports whether a device keeps what it cannot give back yet.
func (s *Session) defers() bool { return s.leisure.keeps.Load() }

// deferFrees is called when a device is opened that keeps what it cannot give back yet.
func (s *Session) deferFrees() { s.leisure.keeps.Store(true) }

// later puts off what gives pinned memory back.
func (s *Session) later(bytes uint64, do func()) { s.leisure.put(bytes, do) }

// deferredPinned is how much pinned memory is freed, and not given back yet.
func (s *Session) deferredPinned() uint64 { return s.leisure.pinned() }

// freeing counts what will be freed when work is done that was submitted.
func (s *Session) freeing(count int64) { s.leisure.frees.Add(count) }

// afterAll runs f when everything is done that was submitted so far, on one device or, for nil, on
// all of them. f runs without the lock and must not take it.
func (s *Session) afterAll(d *device, f func()) {
	var busy []*stream
	for _, c := range s.contexts {
		if d != nil && c.device != d {
			continue
		}
		for _, st := range c.streams {
			if !st.idle() {
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
	s.freeing(1)
	arrive := func() {
		if left.Add(-1) == 0 {
			f()
			s.freeing(-1)
		}
	}
	for _, st := range busy {
		if st.submit(gpu.Tell{Func: arrive}) != nil {
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
	longestLook = 200 * time.Millisecond
	// longestGrace is how long pinned memory waits for a rest that comes by itself.
	longestGrace = 2 * time.Second
	// owedTime is how long to wait for memory that other programs have freed, and owedLook between two
	// looks.
	owedTime, owedLook = 2 * time.Second, 5 * time.Millisecond
)

// freed comes after everything that may have left something for a rest. It needs no lock.
func (s *Session) freed() {
	if !s.defers() || !s.untidy() {
		return
	}
	s.leisure.more.Store(true)
	if !s.leisure.watched.Swap(true) {
		go s.watchRests()
	}
}

// watchRests tidies up in rests, as long as there is anything. What others want, and pinned memory,
// which nothing can use before, is worth holding up a program that never rests.
func (s *Session) watchRests() {
	look, hold, since := grace, time.Duration(0), time.Now()
	for {
		select {
		case <-s.ended:
			return
		case <-time.After(look):
		}
		wanted := s.wanted()
		look = min(2*look, longestLook)
		switch {
		case wanted:
			look = owedLook
			hold = min(2*hold+time.Millisecond, longestHold)
		case !s.leisure.more.Load():
			since, hold = time.Now(), 0 // what is left lies beside what is used
		case time.Since(since) > longestGrace && !s.leisure.empty():
			hold = min(2*hold+time.Millisecond, longestHold)
		}
		if !wanted && !s.leisure.more.Load() && s.untidy() {
			continue
		}
		over := false
		rested, _ := s.ifRests(hold, func() error {
			if over = s.giveSome(wanted); over {
				s.leisure.watched.Store(false) // who frees something after this starts anew
			}
			return nil
		})
		if over {
			return
		}
		if rested {
			hold = 0
			if s.leisure.more.Load() {
				look = time.Millisecond
			}
		}
	}
}

// giveSome tidies up for a moment, or for others, and reports whether nothing is left.
func (s *Session) giveSome(wanted bool) (over bool) {
	s.leisure.more.Store(false)
	if !s.tidy(wanted) {
		s.leisure.more.Store(true)
	}
	if wanted {
		if err := s.compact(); err != nil {
			s.log.Warn("give memory to others", "error", err)
		}
	}
	return !s.untidy()
}

// wanted reports whether other processes need what is kept.
func (s *Session) wanted() bool {
	return slices.ContainsFunc(s.keepers(), gpu.Keeper.Wanted)
}

// compact gives back what is kept beside what is used.
func (s *Session) compact() error {
	for _, k := range s.keepers() {
		if err := k.Compact(); err != nil {
			return err
		}
	}
	return nil
}

// hopes reports whether memory will be free that is not yet.
func (s *Session) hopes() bool { return s.leisure.frees.Load() > 0 || len(s.ending) > 0 || s.untidy() }

// persist makes an attempt at memory. When there is none, but something is freed that is not given
// back yet, it waits for that and tries again, as soon as any of it may be enough: what else is at
// work may wait for the memory.
func (s *Session) persist(call *Call, attempt func() error) error {
	err := attempt()
	if !errors.Is(err, abi.OutOfMemory) || !s.hopes() && !errors.Is(err, gpu.ErrOwed) {
		return err
	}
	w := &wish{session: s, attempt: attempt, begun: time.Now()}
	return call.Beside(w.await)
}

// wish is an allocation that waits for memory.
type wish struct {
	session *Session
	attempt func() error
	begun   time.Time
	// hold is how long others are held up for it at the next try.
	hold time.Duration
}

// await is called without the lock.
func (w *wish) await() error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, owedLook) {
		<-time.After(max(pause, w.hold)) // the others have no less time than they are held up
		if done, err := w.try(); done {
			return err
		}
	}
}

// try makes an attempt, and at a rest, all that can be made.
func (w *wish) try() (done bool, err error) {
	s := w.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true, abi.Deinitialized
	}
	if err = w.attempt(); !errors.Is(err, abi.OutOfMemory) {
		return true, err
	}
	switch {
	case errors.Is(err, gpu.ErrOwed) && time.Since(w.begun) < owedTime:
		return false, nil
	case !s.hopes():
		return true, err
	case !s.defers() || !s.restsWithin(w.hold):
		if s.leisure.frees.Load() == 0 && len(s.ending) == 0 { // only a rest helps
			w.hold = min(2*w.hold+time.Millisecond, longestHold/4)
		}
		return false, nil
	}
	s.tidy(true)
	if err = w.attempt(); !errors.Is(err, abi.OutOfMemory) || !s.untidy() {
		return true, err
	}
	if err := s.compact(); err != nil {
		return true, err
	}
	return true, w.attempt()
}

// behind does something with the lock when the work is done that was submitted before; where
// devices keep what is freed, when all GPUs rest.
func (s *Session) behind(call *Call, do func() error) error {
	keeps := s.defers()
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
	s.freeing(1)
	return call.Beside(func() error {
		defer s.freeing(-1)
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
