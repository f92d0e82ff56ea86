package reclaim

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Reclaimer gives freed memory back to the driver.
type Reclaimer struct {
	*core.Core
	state deferred
}

// New returns the reclaimer of a session.
func New(c *core.Core) *Reclaimer { return &Reclaimer{Core: c} }

// reclaimers returns the memories that keep what is freed. It needs no lock.
func (r *Reclaimer) reclaimers() (found []gpu.ReclaimableMemory) {
	if !r.Defers() {
		return nil
	}
	for _, d := range r.Devices {
		if c := d.Opened.Load(); c != nil {
			if k, ok := (*c).Memory().(gpu.ReclaimableMemory); ok {
				found = append(found, k)
			}
		}
	}
	return found
}

// kept reports whether freed memory waits for idle GPUs. It needs no lock.
func (r *Reclaimer) kept() bool {
	for _, k := range r.reclaimers() {
		if k.Reclaimable() > 0 {
			return true
		}
	}
	return !r.state.empty()
}

// idle reports whether no stream has work.
func (r *Reclaimer) idle() bool {
	for _, c := range r.Contexts {
		if len(c.Busy()) > 0 {
			return false
		}
	}
	for c := range r.Ending {
		if len(c.Busy()) > 0 {
			return false
		}
	}
	return true
}

// waitIdle waits up to limit for all streams to become idle. It holds Mu, so no new calls arrive;
// keep limit short, because running work may depend on the next call.
func (r *Reclaimer) waitIdle(limit time.Duration) bool {
	if r.idle() || limit <= 0 {
		return r.idle()
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for !r.idle() {
		select {
		case <-r.workDone():
		case <-timeout.C:
			return r.idle()
		}
	}
	return true
}

// workDone returns a channel that is closed when the work ends that streams have now. Mu is held.
// Only one goroutine waits at a time, because work may never end; a stream that becomes busy
// in the meantime is waited for afterwards.
func (r *Reclaimer) workDone() <-chan struct{} {
	select {
	case <-r.state.workDone:
	default:
		if r.state.workDone != nil {
			return r.state.workDone
		}
	}
	done := make(chan struct{})
	r.state.workDone = done
	busy, release := r.holdBusy()
	go func() {
		await(busy, release)
		close(done)
	}()
	return done
}

// maxHold is how long the program's calls are held up at most, at a time, so that its GPUs become
// idle.
const maxHold = time.Second

// WhenIdle runs do with the lock when no stream has work. A program that always has work is held up
// for longer and longer. It is called without the lock.
func (r *Reclaimer) WhenIdle(do func() error) error {
	for hold := time.Duration(0); ; hold = min(2*hold+time.Millisecond, maxHold) {
		done, err := r.tryIdle(hold, do)
		if done {
			return err
		}
		r.Mu.Lock()
		busy, release := r.holdBusy()
		r.Mu.Unlock()
		await(busy, release)
	}
}

// tryIdle takes the lock and runs do if all streams become idle soon.
func (r *Reclaimer) tryIdle(soon time.Duration, do func() error) (done bool, err error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	switch {
	case r.Closed:
		return true, abi.Deinitialized
	case !r.waitIdle(soon):
		return false, nil
	}
	return true, do()
}

// Reclaim gives back what was freed: all of it, or some. All GPUs are idle. It reports whether
// nothing is left to be tried: what cannot be given back is logged, and counts as done.
func (r *Reclaimer) Reclaim(all bool) (done bool) {
	for _, do := range r.state.take() {
		do()
	}
	done = true
	for _, k := range r.reclaimers() {
		for {
			given, err := k.Reclaim()
			if err != nil {
				r.Log.Warn("give memory back", "error", err)
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

// AfterAll runs f when all work is done that was submitted so far, on one device or, for nil, on
// all of them. f runs without the lock and must not take it.
func (r *Reclaimer) AfterAll(d *core.Device, f func()) {
	var busy []*core.Stream
	for _, c := range r.Contexts {
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
	r.CountFrees(1)
	arrive := func() {
		if left.Add(-1) == 0 {
			f()
			r.CountFrees(-1)
		}
	}
	for _, st := range busy {
		if st.Submit(gpu.Completion{Func: arrive}) != nil {
			arrive()
		}
	}
}

// How freed memory is given back.
const (
	// grace is how long freed memory stays for the program's next allocations while its GPUs are idle.
	grace = 20 * time.Millisecond
	// maxPoll is the longest time between two checks for idle GPUs.
	maxPoll = 200 * time.Millisecond
	// maxGrace is how long pinned memory waits for GPUs that become idle by themselves.
	maxGrace = 2 * time.Second
	// pendingTime is how long to wait for memory that other programs have freed, pendingPoll the
	// time between two attempts.
	pendingTime, pendingPoll = 2 * time.Second, 5 * time.Millisecond
)

// Freed is called after each free that may have left something to reclaim. It needs no lock.
func (r *Reclaimer) Freed() {
	if !r.Defers() || !r.kept() {
		return
	}
	r.state.more.Store(true)
	if !r.state.watched.Swap(true) {
		go r.watch()
	}
}

// watch reclaims while all GPUs are idle, until nothing is left. A program that is never idle is
// held up only for memory that other processes want, and for pinned memory, which cannot be reused
// before it is given back.
func (r *Reclaimer) watch() {
	pause, hold, since := grace, time.Duration(0), time.Now()
	for {
		select {
		case <-r.Ended:
			return
		case <-time.After(pause):
		}
		wanted := r.wanted()
		pause = min(2*pause, maxPoll)
		switch {
		case wanted:
			pause = pendingPoll
			hold = min(2*hold+time.Millisecond, maxHold)
		case !r.state.more.Load():
			since, hold = time.Now(), 0 // what is left shares chunks with memory in use
		case time.Since(since) > maxGrace && !r.state.empty():
			hold = min(2*hold+time.Millisecond, maxHold)
		}
		if !wanted && !r.state.more.Load() && r.kept() {
			continue
		}
		over := false
		wasIdle, _ := r.tryIdle(hold, func() error {
			if over = r.reclaimSome(wanted); over {
				r.state.watched.Store(false) // the next Freed starts another watch
			}
			return nil
		})
		if over {
			return
		}
		if wasIdle {
			hold = 0
			if r.state.more.Load() {
				pause = time.Millisecond
			}
		}
	}
}

// reclaimSome reclaims a part, or all if other processes want it, and reports whether nothing is
// left.
func (r *Reclaimer) reclaimSome(wanted bool) (over bool) {
	r.state.more.Store(false)
	if !r.Reclaim(wanted) {
		r.state.more.Store(true)
	}
	if wanted {
		if err := r.compact(); err != nil {
			r.Log.Warn("give memory to others", "error", err)
		}
	}
	return !r.kept()
}

// wanted reports whether other processes need memory that is kept.
func (r *Reclaimer) wanted() bool {
	return slices.ContainsFunc(r.reclaimers(), gpu.ReclaimableMemory.ReclaimRequested)
}

// compact gives back freed memory that shares chunks with memory in use.
func (r *Reclaimer) compact() error {
	for _, k := range r.reclaimers() {
		if err := k.Compact(); err != nil {
			return err
		}
	}
	return nil
}

// AfterWork runs do with the lock when all work is done that was submitted before; if frees are
// deferred, when all GPUs are idle.
func (r *Reclaimer) AfterWork(call *core.Call, do func() error) error {
	keeps := r.Defers()
	if keeps {
		inner := do
		do = func() error { // what it frees need not be kept
			defer r.Reclaim(true)
			return inner()
		}
	}
	busy, release := r.holdBusy()
	if len(busy) == 0 {
		return do()
	}
	r.CountFrees(1)
	return call.Detach(func() error {
		defer r.CountFrees(-1)
		await(busy, release)
		if keeps {
			return r.WhenIdle(do)
		}
		r.Mu.Lock()
		defer r.Mu.Unlock()
		return do()
	})
}

// holdBusy keeps all streams that have work open until await has waited for them.
func (r *Reclaimer) holdBusy() (busy []*core.Stream, release []func()) {
	for _, c := range r.Contexts {
		if streams := c.Busy(); len(streams) > 0 {
			busy = append(busy, streams...)
			release = append(release, c.Hold(streams))
		}
	}
	for c := range r.Ending {
		for _, st := range c.Busy() {
			busy = append(busy, st)
			st.References.Add(1)
			release = append(release, st.Drop)
		}
	}
	return busy, release
}

// await waits for streams of holdBusy and releases them. It needs no lock.
func await(busy []*core.Stream, release []func()) {
	for _, st := range busy {
		_ = st.Work.Synchronize() // a fault will be the next call's
	}
	for _, f := range release {
		f()
	}
}
