package gpu

// StreamOptions describe a stream.
type StreamOptions struct {
	// NonBlocking streams do not order themselves with the legacy default stream. The session supplies
	// that ordering with events; a backend may ignore it.
	NonBlocking bool
	Priority    int32
}

// Stream runs work in order, concurrently with other streams.
type Stream interface {
	// Submit queues work and returns at once. Its error is about the request itself; faults are
	// reported later.
	Submit(work Work) error
	// Query returns nil when all work is done, abi.NotReady while it is not, else the fault.
	Query() error
	// Idle reports whether all work is done or, in a poisoned context, skipped.
	Idle() bool
	// Synchronize waits until all work submitted before the call is done and returns the context's
	// fault.
	Synchronize() error
	Close() error
}

// Stager is a Stream that stages copies of up to EarlyBytes from host memory without waiting. The
// caller then gains nothing by writing device memory directly while the stream is idle.
type Stager interface{ Stages() bool }

// EventOptions describe an event.
type EventOptions struct {
	// Timing is set for events that record their time.
	Timing bool
	// Time is the event's time before it was saved; zero for a new event.
	Time EventTime
}

// Event is a point in a stream. An event that was never recorded counts as reached.
type Event interface {
	Query() error
	Synchronize() error
	// ElapsedSince returns the time between two events in milliseconds. Both must have timing, and
	// be recorded and reached.
	ElapsedSince(start Event) (milliseconds float32, err error)
	Close() error
}
