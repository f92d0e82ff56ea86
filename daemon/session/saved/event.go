package saved

import "github.com/phos-gpu/phos/daemon/gpu"

// Event is a driver event.
type Event struct {
	Timing bool
	// Moment is when it was last reached.
	Moment gpu.Moment
	// Word is the completion word, and the counts are what the program and the word agree on; see the session's event.
	Word                              uint32
	Recorded, Counted, Asked, Reached uint64
	// InGraph events are recorded by graphs.
	InGraph bool
	// Captured ones were last recorded in a capture, which has ended since.
	Captured bool
}

func (e *Event) code(c *coder) {
	c.flag(&e.Timing)
	c.flag(&e.Moment.Recorded)
	number(c, &e.Moment.Clock)
	number(c, &e.Word)
	number(c, &e.Recorded)
	number(c, &e.Counted)
	number(c, &e.Asked)
	number(c, &e.Reached)
	c.flag(&e.InGraph)
	c.flag(&e.Captured)
}
