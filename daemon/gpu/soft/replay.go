package soft

import (
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// replay is one launch of a graph.
type replay struct {
	context    *Context
	plan       *gpu.Plan
	works      []gpu.Work
	recordings []*recording // of Record and Await nodes; nil if the graph has none
}

// newReplay resolves the events of the graph, in the order of a serial run. The executable's mu is
// held.
func newReplay(e *Executable) (*replay, error) {
	r := &replay{context: e.context, plan: e.plan, works: e.works}
	for _, i := range e.plan.Order {
		it := item{work: e.works[i]}
		switch it.work.(type) {
		case gpu.Record, gpu.Await:
			if err := e.context.prepare(&it); err != nil {
				r.cancel()
				return nil, err
			}
			if r.recordings == nil {
				r.recordings = make([]*recording, len(e.works))
			}
			r.recordings[i] = it.recording
		}
	}
	return r, nil
}

// recording returns a node's recording, or nil.
func (r *replay) recording(node int) *recording {
	if r.recordings == nil {
		return nil
	}
	return r.recordings[node]
}

// run runs the graph. On an error it returns after all nodes in flight have ended.
func (r *replay) run() error {
	b := r.context.backend
	if workers := min(r.plan.Width, b.idleCores()); workers > 1 && !b.spec.Deterministic {
		return r.runWide(workers)
	}
	for at, i := range r.plan.Order {
		if r.context.stopping() {
			r.releaseWaiters(r.plan.Order[at:])
			return nil
		}
		if err := r.context.perform(r.works[i], r.recording(i)); err != nil {
			r.releaseWaiters(r.plan.Order[at+1:])
			return err
		}
	}
	return nil
}

// runWide runs independent branches in parallel.
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
				if err := r.runNode(i, failed.Load() != nil); err != nil {
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

// runNode runs one node. After a failure it only runs the node's part that others wait for.
func (r *replay) runNode(i int, failed bool) error {
	if failed || r.context.stopping() {
		r.releaseWaiters([]int{i})
		return nil
	}
	return r.context.perform(r.works[i], r.recording(i))
}

// releaseWaiters runs only the nodes that others may wait for: records and calls.
func (r *replay) releaseWaiters(nodes []int) {
	for _, i := range nodes {
		switch work := r.works[i].(type) {
		case gpu.Record:
			if m := r.recording(i); m != nil {
				m.complete()
			}
		case gpu.Call:
			work.Func()
		case gpu.Completion:
			work.Func()
		}
	}
}

// cancel completes the recordings of a launch that was rejected, so that waits for them return.
func (r *replay) cancel() {
	for i, work := range r.works {
		if _, records := work.(gpu.Record); records && r.recording(i) != nil {
			r.recording(i).complete()
		}
	}
}

// skip completes a launch whose work is skipped.
func (r *replay) skip() {
	r.releaseWaiters(r.plan.Order)
}
