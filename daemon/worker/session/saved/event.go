package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
)

// Event is a driver event.
type Event struct {
	Timing bool
	// Moment is when it was last reached.
	Moment gpu.Moment
	// Word is the completion word, and the counts are what the program and the word agree on; see the
	// session's event.
	Word                              uint32
	Recorded, Counted, Asked, Reached uint64
	// InGraph events are recorded by graphs.
	InGraph bool
	// Captured ones were last recorded in a capture, which has ended since.
	Captured bool
	// Shared is what other processes have of it, nil for an event that is not for them.
	Shared *SharedEvent
}

// SharedEvent is an event between processes.
type SharedEvent struct {
	// Count is how often it was recorded, by whomever.
	Count uint64
	// Export is the number under which others can have it, Token where it was had from; zero for none.
	Export ipc.ID
	Token  ipc.Token
}

func codeShared(c *coder, e *SharedEvent) {
	number(c, &e.Count)
	codeID(c, &e.Export)
	codeID(c, &e.Token.Exporter)
	codeID(c, &e.Token.Key)
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
	if c.version >= 3 {
		optional(c, &e.Shared, codeShared)
	}
}
