package gpu

import "time"

// Resumable is a Context that can be saved and restored. Memory, modules, streams, events and
// graphs are recreated one by one; Resumable covers the rest.
type Resumable interface {
	// Continuation returns the state of the context itself.
	Continuation() Continuation
	// EventTime returns when the latest recording of an event was reached; abi.NotReady if it is still
	// pending.
	EventTime(event Event) (EventTime, error)
	// Poison makes err the context's fault. It is used when the replaced context had one.
	Poison(err error)
}

// Unsavable is a Context that may hold state which cannot be saved.
type Unsavable interface {
	// Unsavable returns why the context cannot be saved now, with what the program can do instead; an
	// empty text if it can.
	Unsavable() string
}

// Continuation is the state that a context hands to its replacement.
type Continuation struct {
	// Clock is the time base of events. It continues from this value; it stops between checkpoint
	// and restore.
	Clock time.Duration
	// Launches counts launched kernels; device code can read this number.
	Launches uint64
}

// EventTime is the time of an event.
type EventTime struct {
	// Recorded is false if the event was never recorded.
	Recorded bool
	// Clock is the context's clock when the event was reached.
	Clock time.Duration
}
