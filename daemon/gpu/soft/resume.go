package soft

import (
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Continuation is what a context that takes this one's place has to know.
func (c *Context) Continuation() gpu.Continuation {
	return gpu.Continuation{Clock: time.Since(c.clockStart), Launches: c.launches.Load()}
}

// Moment is when the latest recording of an event was reached.
func (c *Context) Moment(event gpu.Event) (gpu.Moment, error) {
	e, err := openEvent(event, "ask when an event happened")
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
