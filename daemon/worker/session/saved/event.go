package saved

import (
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
)

// Event is a driver event.
type Event struct {
	Timing bool
	// Time is the time at which it was last reached.
	Time gpu.EventTime
	// Word is the completion word. The counts are described at package session's event.
	Word                              uint32
	Recorded, Counted, Asked, Reached uint64
	// InGraph is set if graphs record the event.
	InGraph bool
	// Captured is set if the event was last recorded in a capture that has ended.
	Captured bool
	// Shared is set for an event that other processes may open.
	Shared *SharedEvent
}

// SharedEvent is the interprocess part of an event.
type SharedEvent struct {
	// Count is how often it was recorded, by all processes.
	Count uint64
	// Export is the key under which it is exported, Token that of an imported event; either may be
	// zero.
	Export ipc.ID
	Token  ipc.Token
}

// codeShared codes the interprocess part of an event.
func codeShared(c *coder, e *SharedEvent) {
	number(c, &e.Count)
	codeID(c, &e.Export)
	codeID(c, &e.Token.Exporter)
	codeID(c, &e.Token.Key)
}

// code codes an event; Shared since version 3.
func (e *Event) code(c *coder) {
	c.boolean(&e.Timing)
	c.boolean(&e.Time.Recorded)
	number(c, &e.Time.Clock)
	number(c, &e.Word)
	number(c, &e.Recorded)
	number(c, &e.Counted)
	number(c, &e.Asked)
	number(c, &e.Reached)
	c.boolean(&e.InGraph)
	c.boolean(&e.Captured)
	if c.version >= 3 {
		optional(c, &e.Shared, codeShared)
	}
}
