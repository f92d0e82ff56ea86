package soft

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Stream is a sequence of work in a queue.
type Stream struct {
	context *Context
	queue   *queue
	closed  atomic.Bool

	// submitted and completed count items. waiters counts the goroutines that sleep in wait.
	submitted, completed atomic.Uint64
	waiters              atomic.Int32
	mu                   sync.Mutex
	progress             sync.Cond
}

func newStream(c *Context, q *queue) *Stream {
	s := &Stream{context: c, queue: q}
	s.progress.L = &s.mu
	return s
}

// Submit checks work and queues it.
func (s *Stream) Submit(work gpu.Work) error {
	c := s.context
	if err := c.Fault(); err != nil {
		if !gpu.RunsAlways(work) {
			return err
		}
	}
	it := item{stream: s, work: work}
	if err := c.prepare(&it); err != nil {
		return err
	}
	return s.push(it)
}

// push queues an item unless the stream is closed.
func (s *Stream) push(it item) error {
	if s.closed.Load() || !s.queue.push(it) {
		return &gpu.Error{Op: "submit work", Code: abi.InvalidHandle, Detail: "the stream is closed"}
	}
	return nil
}

// run runs an item on the queue's goroutine. After a fault only work that others wait for still
// runs.
func (s *Stream) run(it *item) {
	c := s.context
	switch work := it.work.(type) {
	case gpu.Record:
		it.recording.complete()
	case gpu.Call:
		work.Func()
	case gpu.Completion:
		work.Func()
	default:
		if c.stopping() {
			if it.replay != nil {
				it.replay.skip()
			}
			return
		}
		var err error
		if it.replay != nil {
			err = it.replay.run()
		} else {
			err = c.perform(it.work, it.recording)
		}
		if err != nil {
			c.poison(err)
		}
	}
}

// finished counts an item as completed and wakes waiters.
func (s *Stream) finished() {
	s.completed.Add(1)
	if s.waiters.Load() > 0 {
		s.mu.Lock()
		s.progress.Broadcast()
		s.mu.Unlock()
	}
}

// syncSpins is how often Synchronize polls before it sleeps.
const syncSpins = 50

// wait returns when all items submitted so far are completed.
func (s *Stream) wait() {
	target := s.submitted.Load()
	for range syncSpins {
		if s.completed.Load() >= target {
			return
		}
		runtime.Gosched()
	}
	s.waiters.Add(1) // before loading completed again: finished uses the opposite order
	defer s.waiters.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.completed.Load() < target {
		s.progress.Wait()
	}
}

// Idle reports whether all submitted work has completed.
func (s *Stream) Idle() bool { return s.completed.Load() >= s.submitted.Load() }

// Query returns abi.NotReady until all work has completed.
func (s *Stream) Query() error {
	if err := s.context.Fault(); err != nil {
		return err
	}
	if !s.Idle() {
		return abi.NotReady
	}
	return s.context.Fault() // the item that has just completed may have failed
}

// Synchronize waits for all work submitted before the call.
func (s *Stream) Synchronize() error {
	s.wait()
	return s.context.Fault()
}

// Close ends the stream once its work is done, without waiting for it.
func (s *Stream) Close() error {
	if s.closed.Swap(true) {
		return &gpu.Error{Op: "destroy stream", Code: abi.InvalidHandle, Detail: "the stream is closed"}
	}
	s.context.removeWhenDrained(s)
	if s.queue != s.context.backend.shared {
		s.queue.stop()
	}
	return nil
}
