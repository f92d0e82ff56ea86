package soft

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Context holds the modules, streams and sticky fault of one context on a device.
type Context struct {
	backend       *Backend
	device        *device
	memory        *Memory
	sessionMemory gpu.Memory // memory in the form that sessions use
	output        func([]byte)
	// running is cancelled when the context is poisoned or closed. Kernels stop then, and queued work
	// is skipped.
	running context.Context
	end     context.CancelFunc
	fault   atomic.Pointer[error]
	checks  gpu.Checks
	// launches numbers kernel launches for %gridid.
	launches atomic.Uint64
	// clockStart is the time at which the context's clock read 0.
	clockStart time.Time

	mu      sync.Mutex
	streams map[*Stream]struct{} // open, or closed and not yet drained
	closed  bool
}

func newContext(b *Backend, d *device, options gpu.ContextOptions) *Context {
	c := &Context{
		backend: b, device: d, output: options.Output, streams: map[*Stream]struct{}{},
		clockStart: time.Now().Add(-options.Resumed.Clock),
	}
	c.launches.Store(options.Resumed.Launches)
	c.checks = checks(c.checkLaunch)
	c.memory = &Memory{Memory: d.space, device: d, context: c}
	c.sessionMemory = c.memory.sessionView(!b.spec.Untracked)
	c.running, c.end = context.WithCancel(context.Background())
	return c
}

// Memory returns the device's memory.
func (c *Context) Memory() gpu.Memory { return c.sessionMemory }

// NewStream creates a stream. Priorities are accepted and have no effect.
func (c *Context) NewStream(gpu.StreamOptions) (gpu.Stream, error) {
	if err := c.checkUsable("create stream"); err != nil {
		return nil, err
	}
	q := c.backend.shared
	if q == nil {
		q = newQueue()
	}
	s := newStream(c, q)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[s] = struct{}{}
	return s, nil
}

// NewEvent creates an event.
func (c *Context) NewEvent(options gpu.EventOptions) (gpu.Event, error) {
	if err := c.checkUsable("create event"); err != nil {
		return nil, err
	}
	e := &Event{context: c, timing: options.Timing}
	if m := options.Time; m.Recorded {
		reached := &recording{at: c.clockStart.Add(m.Clock)}
		reached.done.Store(true)
		e.latest.Store(reached)
	}
	return e, nil
}

// Synchronize waits for all streams.
func (c *Context) Synchronize() error {
	for _, s := range c.openStreams() {
		s.wait()
	}
	return c.Fault()
}

// Fault returns the sticky error.
func (c *Context) Fault() error {
	if err := c.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// poison records err as the context's fault, if it is the first, and stops running work.
func (c *Context) poison(err error) {
	if c.running.Err() != nil && c.fault.Load() == nil {
		return // Close cancelled a kernel, which is not a fault
	}
	if !c.fault.CompareAndSwap(nil, &err) {
		return
	}
	c.backend.logger.Error("fault on software GPU",
		"device", c.device.ordinal, "code", gpu.Code(err).String(), "error", err)
	var fault *simt.Fault
	if errors.As(err, &fault) && fault.Stack != nil {
		c.backend.logger.Error("panic in kernel", "device", c.device.ordinal, "stack", string(fault.Stack))
	}
	c.end()
}

// stopping reports whether queued work is to be skipped.
func (c *Context) stopping() bool { return c.running.Err() != nil }

// checkUsable returns an error if the context has a fault or is closed.
func (c *Context) checkUsable(op string) error {
	if err := c.Fault(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return &gpu.Error{Op: op, Code: abi.ContextIsDestroyed}
	}
	return nil
}

// openStreams returns the streams that may still have work.
func (c *Context) openStreams() []*Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := make([]*Stream, 0, len(c.streams))
	for s := range c.streams {
		open = append(open, s)
	}
	return open
}

// removeWhenDrained removes a closed stream once its work is done. Until then Synchronize must wait
// for it.
func (c *Context) removeWhenDrained(s *Stream) {
	drop := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.streams, s)
	}
	if s.completed.Load() == s.submitted.Load() {
		drop()
		return
	}
	go func() {
		s.wait()
		drop()
	}()
}

// Close stops kernels, skips queued work and releases the memory. It waits for queued calls of the
// session, which still run.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	c.end()
	for _, s := range c.openStreams() {
		closedBefore := s.closed.Swap(true)
		if s.queue == c.backend.shared {
			s.wait()
			continue
		}
		if !closedBefore {
			s.queue.stop()
		}
		<-s.queue.ended
	}
	c.backend.remove(c)
	return c.memory.releaseAll()
}
