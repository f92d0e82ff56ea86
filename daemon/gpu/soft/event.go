package soft

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Event is a point in a stream. latest is its most recent recording.
type Event struct {
	context *Context
	timing  bool
	closed  atomic.Bool
	latest  atomic.Pointer[recording]
}

// recording is one recording of an event. It is created when the record is submitted and completed
// when the stream reaches it.
type recording struct {
	done atomic.Bool
	at   time.Time // valid once done

	mu      sync.Mutex
	reached chan struct{} // created by the first waiter
}

// complete sets the time of the recording and wakes the waiters. Only the first call has an effect.
func (m *recording) complete() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.Load() {
		return
	}
	m.at = time.Now()
	m.done.Store(true)
	if m.reached != nil {
		close(m.reached)
	}
}

// closedChannel stands for the channel of a recording that completed before any wait.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait returns a channel that is closed when the recording completes.
func (m *recording) wait() <-chan struct{} {
	if m.done.Load() {
		return closedChannel
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done.Load() {
		return closedChannel
	}
	if m.reached == nil {
		m.reached = make(chan struct{})
	}
	return m.reached
}

// Query returns abi.NotReady until the latest recording completes.
func (e *Event) Query() error {
	if err := e.context.Fault(); err != nil {
		return err
	}
	if m := e.latest.Load(); m != nil && !m.done.Load() {
		return abi.NotReady
	}
	return nil
}

// Synchronize waits for the latest recording.
func (e *Event) Synchronize() error {
	if m := e.latest.Load(); m != nil {
		<-m.wait()
	}
	return e.context.Fault()
}

// ElapsedSince returns the milliseconds from start to e.
func (e *Event) ElapsedSince(start gpu.Event) (float32, error) {
	s, ok := start.(*Event)
	if !ok || !s.timing || !e.timing {
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "an event without timing"}
	}
	from, to := s.latest.Load(), e.latest.Load()
	switch {
	case from == nil || to == nil:
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "an event that was never recorded"}
	case !from.done.Load() || !to.done.Load():
		return 0, abi.NotReady
	}
	return float32(float64(to.at.Sub(from.at)) / float64(time.Millisecond)), nil
}

// Close destroys the event. Recordings in flight still complete and wake their waiters.
func (e *Event) Close() error {
	if e.closed.Swap(true) {
		return &gpu.Error{Op: "destroy event", Code: abi.InvalidHandle, Detail: "the event is destroyed"}
	}
	return nil
}
