package cuda

import (
	"sync"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Stream is a stream of the driver, with a lane for what the driver cannot do alone.
type Stream struct {
	context *Context
	native  cudadrv.Stream

	mu       sync.Mutex
	progress sync.Cond
	queue    []item // for the lane
	running  bool   // the lane is at work: what is submitted must queue behind it
	// submitted and completed count what went through the lane.
	submitted, completed uint64
	closed, gone         bool // gone: the driver has it no more
	// tail is the mark that is the last thing the driver was given; nil when that is something else.
	tail *mark
	// tells is what the driver was asked to get to before it is run; watched: a goroutine waits for
	// that; telling: somebody is running some. toTell and told count those submitted and those run.
	tells            []tell
	watched, telling bool
	toTell, told     uint64
	// stage is pinned memory for small copies, of which staged bytes were handed out.
	stage  []byte
	staged int
}

// item is one thing submitted.
type item struct {
	work gpu.Work
	// mark is what a Record settles or an Await waits for; nil for an event never recorded.
	mark *mark
	// graph is launched, with work that is Nothing; nil in most.
	graph *driverGraph
	// own says of a Tell that it is not the session's.
	own bool
	// after is how many functions a Call in the lane comes after.
	after uint64
}

// NewStream makes a stream. The session orders it with the default stream, so to the driver they
// are all apart.
func (c *Context) NewStream(options gpu.StreamOptions) (gpu.Stream, error) {
	if err := c.usable("create stream"); err != nil {
		return nil, err
	}
	native, err := c.driver.StreamCreateWithPriority(c.native, cudadrv.StreamNonBlocking, options.Priority)
	if err != nil {
		return nil, c.noted("create stream", err)
	}
	s := &Stream{context: c, native: native}
	s.progress.L = &s.mu
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = struct{}{}
	return s, nil
}

// Submit checks work and gives it to the driver, or to the lane.
func (s *Stream) Submit(work gpu.Work) error {
	c := s.context
	if err := c.Fault(); err != nil {
		if !gpu.Always(work) {
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
	if done, err := s.early(&it); done || err != nil {
		return err
	}
	return s.put(it)
}

func errClosedStream() error {
	return &gpu.Error{Op: "submit work", Code: abi.InvalidHandle, Detail: "the stream is closed"}
}

func (s *Stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// put gives one item to the driver where that can be, else to the lane. mu is held.
func (s *Stream) put(it item) error {
	if s.closed {
		it.abandon()
		it.drop()
		return errClosedStream()
	}
	return s.accept(it)
}

// accept is put for a stream that may be closed, but is not gone. mu is held.
func (s *Stream) accept(it item) error {
	_, tells := it.work.(gpu.Tell)
	tells = tells && !it.own
	if !s.running && !s.context.stopping() && it.native() {
		defer it.drop()
		err := s.issue(it)
		if tells && err == nil {
			s.toTell++
		}
		return err
	}
	if tells {
		s.toTell++
	}
	it.after = s.toTell
	s.queue = append(s.queue, it)
	s.submitted++
	if !s.running {
		s.running = true
		go s.lane()
	}
	return nil
}

// Query tells whether all work is done.
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

// Idle tells whether all work is over.
func (s *Stream) Idle() bool {
	idle, err := s.idle()
	return idle && (err == nil || s.context.stopping())
}

// idle is Idle, or what the driver says instead. After a fault all work is over.
func (s *Stream) idle() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return false, nil
	}
	var err error
	if !s.gone && !s.context.stopping() {
		err = s.context.driver.StreamQuery(s.context.native, s.native)
		if gpu.Code(err) == abi.NotReady {
			return false, nil
		}
		err = s.context.noted("query stream", err)
	}
	return s.quiet(), err
}

// Synchronize waits for all work submitted before the call.
func (s *Stream) Synchronize() error {
	c := s.context
	gone, tells := s.awaitLane()
	if gone || c.stopping() {
		s.awaitTells(tells)
		return c.Fault()
	}
	err := c.noted("synchronize stream", s.awaitDriver())
	s.awaitTells(tells)
	if c.stopping() {
		return c.Fault() // what the driver says of a context that is being closed is no fault
	}
	c.flush()
	return err
}

// awaitLane waits until the lane has done what was submitted before. tells is how many functions
// were, in all.
func (s *Stream) awaitLane() (gone bool, tells uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tells = s.toTell
	for target := s.submitted; s.completed < target; {
		s.progress.Wait()
	}
	return s.gone, tells
}

// Close lets the stream end once its work is done, without waiting for it.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &gpu.Error{Op: "destroy stream", Code: abi.InvalidHandle, Detail: "the stream is closed"}
	}
	s.closed = true
	go func() {
		_ = s.Synchronize()
		s.forget()
	}()
	return nil
}

// forget gives the driver's stream back, and takes this one out of the context's.
func (s *Stream) forget() {
	c := s.context
	s.mu.Lock()
	for s.watched || s.running {
		s.progress.Wait() // its marks are in this stream
	}
	s.endsWith(nil)
	if s.stage != nil {
		c.stages.put(s.stage)
		s.stage = nil
	}
	if !s.gone && !c.stopping() {
		_ = c.noted("destroy stream", c.driver.StreamDestroy(c.native, s.native))
	}
	s.gone = true
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		delete(c.streams, s)
	}
}

// end is for a context that is being closed: it waits for the lane, which passes over what is no
// Call.
func (s *Stream) end() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_, tells := s.awaitLane()
	s.awaitTells(tells)
}
