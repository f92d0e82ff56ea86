package cuda

import (
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Stream is a stream of the driver, with a host queue for work that the driver cannot do alone.
type Stream struct {
	context *Context
	native  cudadrv.Stream

	mu           sync.Mutex
	progress     sync.Cond
	queue        []item // the host queue
	queueRunning bool   // the host queue is being processed: new work must queue behind it
	// submitted and completed count the items of the host queue.
	submitted, completed uint64
	closed, destroyed    bool // destroyed: the driver no longer has the stream
	// tail is the event record that is the last work given to the driver; nil if other work is.
	tail *eventRecord
	// completions are those not run yet; watched is set while a goroutine waits for them; completing
	// while a goroutine runs one. completionsAdded and
	// completionsRun count them.
	completions                      []completion
	watched, completing              bool
	completionsAdded, completionsRun uint64
	// stage is the staging buffer for small copies; its first staged bytes are used.
	stage  []byte
	staged int
}

// item is one submitted piece of work.
type item struct {
	work gpu.Work
	// record is settled by a Record, and waited for by an Await; nil for an event that was never
	// recorded.
	record *eventRecord
	// graph is launched if work is Empty; usually nil.
	graph *driverGraph
	// own is set for a Completion of this package.
	own bool
	// after is how many completions must run before a Call in the host queue.
	after uint64
}

// NewStream creates a stream. The session orders streams with the default stream, so all are
// non-blocking for the driver.
func (c *Context) NewStream(options gpu.StreamOptions) (gpu.Stream, error) {
	if err := c.usable("create stream"); err != nil {
		return nil, err
	}
	native, err := c.driver.StreamCreateWithPriority(c.native, cudadrv.StreamNonBlocking, options.Priority)
	if err != nil {
		return nil, c.driverErr("create stream", err)
	}
	s := &Stream{context: c, native: native}
	s.progress.L = &s.mu
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = struct{}{}
	return s, nil
}

// Submit checks work and gives it to the driver or the host queue.
func (s *Stream) Submit(work gpu.Work) error {
	c := s.context
	if err := c.Fault(); err != nil {
		if !gpu.RunsAlways(work) {
			return err
		}
	}
	if s.isClosed() {
		return errClosedStream()
	}
	it, err := c.prepare(work)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, err := s.stageCopy(&it); done || err != nil {
		return err
	}
	return s.put(it)
}

// errClosedStream returns the error for work submitted to a closed stream.
func errClosedStream() error {
	return &gpu.Error{Op: "submit work", Code: abi.InvalidHandle, Detail: "the stream is closed"}
}

// isClosed reports whether Close was called. It locks mu.
func (s *Stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// put gives one item to the driver if possible, else to the host queue. mu is held.
func (s *Stream) put(it item) error {
	if s.closed {
		it.abandon()
		it.release()
		return errClosedStream()
	}
	return s.accept(it)
}

// accept is put for a stream that may be closed, but not destroyed. mu is held.
func (s *Stream) accept(it item) error {
	_, counted := it.work.(gpu.Completion)
	counted = counted && !it.own
	if !s.queueRunning && !s.context.stopping() && it.issuable() {
		defer it.release()
		err := s.issue(it)
		if counted && err == nil {
			s.completionsAdded++
		}
		return err
	}
	if counted {
		s.completionsAdded++
	}
	it.after = s.completionsAdded
	s.queue = append(s.queue, it)
	s.submitted++
	if !s.queueRunning {
		s.queueRunning = true
		go s.runQueue()
	}
	return nil
}

// Query returns nil when all work is done, abi.NotReady while it is not.
func (s *Stream) Query() error {
	if err := s.context.Fault(); err != nil {
		return err
	}
	idle, err := s.idle()
	if err == nil && !idle {
		return abi.NotReady
	}
	return err
}

// Idle reports whether all work is done or skipped.
func (s *Stream) Idle() bool {
	idle, err := s.idle()
	return idle && (err == nil || s.context.stopping())
}

// idle reports whether all work is done, or returns the driver's error. After a fault all work
// counts as done.
func (s *Stream) idle() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queueRunning {
		return false, nil
	}
	var err error
	if !s.destroyed && !s.context.stopping() {
		err = s.context.driver.StreamQuery(s.context.native, s.native)
		if gpu.Code(err) == abi.NotReady {
			return false, nil
		}
		err = s.context.driverErr("query stream", err)
	}
	return s.runAllDue(), err
}

// Synchronize waits for all work submitted before the call.
func (s *Stream) Synchronize() error {
	c := s.context
	destroyed, completions := s.waitQueue()
	if destroyed || c.stopping() {
		s.waitCompletions(completions)
		return c.Fault()
	}
	err := c.driverErr("synchronize stream", s.waitDriver())
	s.waitCompletions(completions)
	if c.stopping() {
		return c.Fault() // errors of the driver during Close are not faults
	}
	c.flush()
	return err
}

// waitQueue waits until the host queue has done all items submitted before. completions is the
// total number submitted by then.
func (s *Stream) waitQueue() (destroyed bool, completions uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	completions = s.completionsAdded
	for target := s.submitted; s.completed < target; {
		s.progress.Wait()
	}
	return s.destroyed, completions
}

// Close marks the stream closed. It is destroyed once its work is done; Close does not wait for
// that.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &gpu.Error{Op: "destroy stream", Code: abi.InvalidHandle, Detail: "the stream is closed"}
	}
	s.closed = true
	go func() {
		_ = s.Synchronize()
		s.destroy()
	}()
	return nil
}

// destroy destroys the driver's stream, and removes this one from its context.
func (s *Stream) destroy() {
	c := s.context
	s.mu.Lock()
	for s.watched || s.queueRunning {
		s.progress.Wait() // completions still wait for events in this stream
	}
	s.setTail(nil)
	if s.stage != nil {
		c.stages.put(s.stage)
		s.stage = nil
	}
	if !s.destroyed && !c.stopping() {
		_ = c.driverErr("destroy stream", c.driver.StreamDestroy(c.native, s.native))
	}
	s.destroyed = true
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		delete(c.streams, s)
	}
}

// shutdown closes the stream of a closing context. It waits for the host queue, which skips
// everything but Calls and completions.
func (s *Stream) shutdown() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_, completions := s.waitQueue()
	s.waitCompletions(completions)
}
