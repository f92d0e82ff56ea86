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

// Moment returns when the latest recording of an event completed.
func (c *Context) Moment(event gpu.Event) (gpu.Moment, error) {
	e, err := openEvent(event, "get event time")
	if err != nil {
		return gpu.Moment{}, err
	}
	m := e.latest.Load()
	switch {
	case m == nil:
		return gpu.Moment{}, nil
	case !m.done.Load():
		return gpu.Moment{}, abi.NotReady
	}
	return gpu.Moment{Recorded: true, Clock: m.at.Sub(c.clockStart)}, nil
}

// Poison makes err the context's fault.
func (c *Context) Poison(err error) { c.poison(err) }
