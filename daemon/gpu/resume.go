package gpu

import "time"

// Resumable is what a Context offers when it can be saved and made again. Memory, modules, streams,
// events and graphs are made again one by one; this is the rest.
type Resumable interface {
	// Continuation is what the context knows beside all that is made in it.
	Continuation() Continuation
	// Moment is when the latest recording of an event was reached; abi.NotReady while it was not.
	Moment(event Event) (Moment, error)
	// Poison makes err the context's fault, as the context had one whose place it takes.
	Poison(err error)
}

// Continuation is what one context hands on to the next.
type Continuation struct {
	// Clock is what events are timed by. It goes on from here: while nobody has the context, no time
	// passes on it.
	Clock time.Duration
	// Launches counts kernels, which may ask for their number.
	Launches uint64
}

// Moment is when an event happened.
type Moment struct {
	// Recorded is false for an event that was never recorded.
	Recorded bool
	// Clock is what the context's clock said.
	Clock time.Duration
}
