package reclaim

import (
	"errors"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
)

// canReclaim reports whether memory will be free that is not yet.
func (s *Reclaimer) canReclaim() bool {
	return s.state.frees.Load() > 0 || len(s.Ending) > 0 || s.kept()
}

// Retry makes an attempt at memory. When there is none, but something is freed that is not given
// back yet, it waits for that and tries again, as soon as any of it may be enough: what else is at
// work may wait for the memory.
func (s *Reclaimer) Retry(call *core.Call, attempt func() error) error {
	err := attempt()
	if !errors.Is(err, abi.OutOfMemory) || !s.canReclaim() && !errors.Is(err, gpu.ErrOwed) {
		return err
	}
	w := &pendingAlloc{session: s, attempt: attempt, begun: time.Now()}
	return call.Beside(w.await)
}

// pendingAlloc is an allocation that waits for memory.
type pendingAlloc struct {
	session *Reclaimer
	attempt func() error
	begun   time.Time
	// hold is how long others are held up for it at the next try.
	hold time.Duration
}

// await is called without the lock.
func (w *pendingAlloc) await() error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, owedLook) {
		<-time.After(max(pause, w.hold)) // the others have no less time than they are held up
		if done, err := w.try(); done {
			return err
		}
	}
}

// try makes an attempt, and at a rest, all that can be made.
func (w *pendingAlloc) try() (done bool, err error) {
	s := w.session
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return true, abi.Deinitialized
	}
	if err = w.attempt(); !errors.Is(err, abi.OutOfMemory) {
		return true, err
	}
	switch {
	case errors.Is(err, gpu.ErrOwed) && time.Since(w.begun) < owedTime:
		return false, nil
	case !s.canReclaim():
		return true, err
	case !s.Defers() || !s.waitIdle(w.hold):
		if s.state.frees.Load() == 0 && len(s.Ending) == 0 { // only a rest helps
			w.hold = min(2*w.hold+time.Millisecond, maxHold/4)
		}
		return false, nil
	}
	s.Reclaim(true)
	if err = w.attempt(); !errors.Is(err, abi.OutOfMemory) || !s.kept() {
		return true, err
	}
	if err := s.compact(); err != nil {
		return true, err
	}
	return true, w.attempt()
}
