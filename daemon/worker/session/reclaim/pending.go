package reclaim

import (
	"errors"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
)

// canReclaim reports whether freed memory is still waiting to be reclaimed.
func (r *Reclaimer) canReclaim() bool {
	return r.state.frees.Load() > 0 || len(r.Ending) > 0 || r.kept()
}

// Retry runs an attempt to allocate memory. If memory is short but freed memory can still be
// reclaimed, the call waits beside the ring and the attempt is repeated each time more may be free:
// running work may itself wait for the allocation.
func (r *Reclaimer) Retry(call *core.Call, attempt func() error) error {
	err := attempt()
	if !errors.Is(err, abi.OutOfMemory) || !r.canReclaim() && !errors.Is(err, gpu.ErrReclaimPending) {
		return err
	}
	w := &pendingAlloc{reclaimer: r, attempt: attempt, begun: time.Now()}
	return call.Detach(w.await)
}

// pendingAlloc is an allocation that waits for memory.
type pendingAlloc struct {
	reclaimer *Reclaimer
	attempt   func() error
	begun     time.Time
	// hold is how long the next try holds up other calls.
	hold time.Duration
}

// await repeats the attempt until it succeeds or cannot. It is called without the lock.
func (p *pendingAlloc) await() error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, pendingPoll) {
		<-time.After(max(pause, p.hold)) // other calls get at least as much time as they are held up
		if done, err := p.try(); done {
			return err
		}
	}
}

// try makes one attempt. If all GPUs are idle it reclaims everything for it.
func (p *pendingAlloc) try() (done bool, err error) {
	s := p.reclaimer
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Closed {
		return true, abi.Deinitialized
	}
	if err = p.attempt(); !errors.Is(err, abi.OutOfMemory) {
		return true, err
	}
	switch {
	case errors.Is(err, gpu.ErrReclaimPending) && time.Since(p.begun) < pendingTime:
		return false, nil
	case !s.canReclaim():
		return true, err
	case !s.Defers() || !s.waitIdle(p.hold):
		if s.state.frees.Load() == 0 && len(s.Ending) == 0 { // only idle GPUs help
			p.hold = min(2*p.hold+time.Millisecond, maxHold/4)
		}
		return false, nil
	}
	s.Reclaim(true)
	if err = p.attempt(); !errors.Is(err, abi.OutOfMemory) || !s.kept() {
		return true, err
	}
	if err := s.compact(); err != nil {
		return true, err
	}
	return true, p.attempt()
}
