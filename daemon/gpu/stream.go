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
	// Submit queues work and returns at once. An error is about the request itself; faults of the work
	// surface later.
	Submit(work Work) error
	// Query returns nil when all work is done, abi.NotReady while it is not, else the fault.
	Query() error
	// Idle reports whether all work is over, done or, in a poisoned context, passed over.
	Idle() bool
	// Synchronize waits until all work submitted before the call is done and returns the context's
	// fault.
	Synchronize() error
	Close() error
}

// Stager is what a Stream offers that takes copies of up to EarlyBytes out of host memory without a
// wait, so that nothing is gained by writing the device's memory without the stream when that is
// idle.
type Stager interface{ Stages() bool }

// EventOptions describe an event.
type EventOptions struct {
	// Timing events remember when they happened.
	Timing bool
	// Moment is when the event happened before it was saved; zero for a new one.
	Moment Moment
}

// Event is a point in a stream. An event that was never recorded counts as done.
type Event interface {
	Query() error
	Synchronize() error
	// ElapsedSince returns the time between two recorded, timing, completed events in milliseconds.
	ElapsedSince(start Event) (milliseconds float32, err error)
	Close() error
}
