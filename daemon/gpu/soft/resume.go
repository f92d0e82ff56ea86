package soft

import (
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Continuation returns the state that a restored context continues from.
func (c *Context) Continuation() gpu.Continuation {
	return gpu.Continuation{Clock: time.Since(c.clockStart), Launches: c.launches.Load()}
}

// EventTime returns when the latest recording of an event completed.
func (c *Context) EventTime(event gpu.Event) (gpu.EventTime, error) {
	e, err := openEvent(event, "get event time")
	if err != nil {
		return gpu.EventTime{}, err
	}
	m := e.latest.Load()
	switch {
	case m == nil:
		return gpu.EventTime{}, nil
	case !m.done.Load():
		return gpu.EventTime{}, abi.NotReady
	}
	return gpu.EventTime{Recorded: true, Clock: m.at.Sub(c.clockStart)}, nil
}

// Poison makes err the context's fault.
func (c *Context) Poison(err error) { c.poison(err) }
