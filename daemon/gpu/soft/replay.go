package soft

import (
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// replay is one launch of a graph.
type replay struct {
	context *Context
	plan    *gpu.Plan
	works   []gpu.Work
	marks   []*mark // by node, of records and awaits; nil where the graph has none
	before  *mark   // the end of the launch before this one; may be nil
	done    *mark
}

// newReplay takes note of what events stand for, in the order in which the nodes would run one by
// one. The executable's mu is held.
func newReplay(e *Executable) (*replay, error) {
	r := &replay{context: e.context, plan: e.plan, works: e.works, before: e.last, done: &mark{}}
	for _, i := range e.plan.Order {
		it := item{work: e.works[i]}
		switch it.work.(type) {
		case gpu.Record, gpu.Await:
			if err := e.context.prepare(&it); err != nil {
				r.forget()
				return nil, err
			}
			if r.marks == nil {
				r.marks = make([]*mark, len(e.works))
			}
			r.marks[i] = it.mark
		}
	}
	return r, nil
}

func (r *replay) mark(node int) *mark {
	if r.marks == nil {
		return nil
	}
	return r.marks[node]
}

// run does the whole graph; it returns the first error after everything that was begun has ended.
func (r *replay) run() error {
	defer r.done.complete()
	if r.before != nil {
		select {
		case <-r.before.wait():
		case <-r.context.running.Done():
		}
	}
	b := r.context.backend
	if workers := min(r.plan.Width, b.idleCores()); workers > 1 && !b.spec.Deterministic {
		return r.runWide(workers)
	}
	for at, i := range r.plan.Order {
		if r.context.stopping() {
			r.release(r.plan.Order[at:])
			return nil
		}
		if err := r.context.perform(r.works[i], r.mark(i)); err != nil {
			r.release(r.plan.Order[at+1:])
			return err
		}
	}
	return nil
}

// runWide runs branches that do not depend on each other at the same time.
func (r *replay) runWide(workers int) error {
	left := append([]int32(nil), r.plan.Needs...)
	ready := make(chan int, len(r.works))
	for _, i := range r.plan.Order {
		if left[i] == 0 {
			ready <- i
		}
	}
	var undone atomic.Int64
	undone.Store(int64(len(r.works)))
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := range ready {
				if err := r.step(i, failed.Load() != nil); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				for _, after := range r.plan.Next[i] {
					if atomic.AddInt32(&left[after], -1) == 0 {
						ready <- after
					}
				}
				if undone.Add(-1) == 0 {
					close(ready)
				}
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// step does one node, or only what others wait for once a node has failed.
func (r *replay) step(i int, failed bool) error {
	if failed || r.context.stopping() {
		r.release([]int{i})
		return nil
	}
	return r.context.perform(r.works[i], r.mark(i))
}

// release does of some nodes only what others may wait for: records and calls.
func (r *replay) release(nodes []int) {
	for _, i := range nodes {
		switch work := r.works[i].(type) {
		case gpu.Record:
			if m := r.mark(i); m != nil {
				m.complete()
			}
		case gpu.Call:
			work.Func()
		case gpu.Tell:
			work.Func()
		}
	}
}

// forget is for a launch that was refused: events that it was to record must not be waited for.
func (r *replay) forget() {
	for i, work := range r.works {
		if _, records := work.(gpu.Record); records && r.mark(i) != nil {
			r.mark(i).complete()
		}
	}
	r.done.complete()
}

// abandon is for a launch that is passed over.
func (r *replay) abandon() {
	r.release(r.plan.Order)
	r.done.complete()
}
