package cuda

import (
	"time"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// clock is what a context's events are timed by: the driver's timer, counted from an event of its own, which was reached when
// the clock said origin.
type clock struct {
	base   cudadrv.Event
	origin time.Duration
	zero   time.Time // when the clock said 0, by this machine's
}

// start lets a clock go on from what an earlier one said.
func (k *clock) start(c *Context, from time.Duration) (err error) {
	if k.base, err = c.driver.EventCreate(c.native, 0); err != nil {
		return err
	}
	if err := c.driver.EventRecord(c.native, k.base, c.aside); err != nil {
		return err
	}
	if err := c.driver.EventSynchronize(c.native, k.base); err != nil {
		return err
	}
	k.origin, k.zero = from, time.Now().Add(-from)
	return nil
}

// now is what the clock says for what no event of the driver was recorded.
func (k *clock) now() time.Duration { return time.Since(k.zero) }

// moment is what the clock said when the mark was reached, which it is.
func (m *mark) moment() (time.Duration, error) {
	native, _ := m.known()
	if native == 0 || !m.timing {
		return m.clock, nil
	}
	c := m.context
	ms, err := c.driver.EventElapsedTime(c.native, c.clock.base, native)
	if err != nil {
		return 0, c.noted("ask when an event happened", err)
	}
	return c.clock.origin + time.Duration(float64(ms)*float64(time.Millisecond)), nil
}

// Continuation is what a context that takes this one's place has to know.
func (c *Context) Continuation() gpu.Continuation {
	return gpu.Continuation{Clock: c.clock.now(), Launches: c.launches.Load()}
}

// Moment is when the latest recording of an event was reached.
func (c *Context) Moment(event gpu.Event) (gpu.Moment, error) {
	e, err := ours(event, "ask when an event happened")
	if err != nil {
		return gpu.Moment{}, err
	}
	m := e.mark()
	if m == nil {
		return gpu.Moment{}, nil
	}
	defer m.drop()
	if err := m.query(); gpu.Code(err) == abi.NotReady {
		return gpu.Moment{}, err
	}
	at, err := m.moment()
	if c.Fault() != nil {
		return gpu.Moment{Recorded: true, Clock: c.clock.now()}, nil // the driver tells no times any more
	}
	return gpu.Moment{Recorded: true, Clock: at}, err
}

// Poison makes err the context's fault.
func (c *Context) Poison(err error) { c.poison(err) }
