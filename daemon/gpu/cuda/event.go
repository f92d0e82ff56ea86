package cuda

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Event is a point in a stream: what it stands for is its latest mark.
type Event struct {
	context *Context
	timing  bool

	mu     sync.Mutex
	latest *mark // nil: never recorded
	closed bool
}

// mark is one recording of an event. Each has an event of the driver's to itself, so that who waits for it never waits for a
// later one.
type mark struct {
	context *Context
	timing  bool
	users   atomic.Int32

	mu sync.Mutex
	// settled: the driver has it, or nobody will ever record it.
	settled bool
	native  cudadrv.Event // zero: it is over since clock
	clock   time.Duration
	ready   chan struct{} // made by the first who waits for settled
}

// newMark makes the next recording of an event.
func (c *Context) newMark(event gpu.Event) (*mark, error) {
	e, err := ours(event, "record event")
	if err != nil {
		return nil, err
	}
	if e.context != c {
		return nil, &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "the event belongs to another context"}
	}
	m := &mark{context: c, timing: e.timing}
	m.users.Store(2) // the event, and the stream that will reach it
	e.mu.Lock()
	old := e.latest
	e.latest = m
	e.mu.Unlock()
	old.drop()
	return m, nil
}

// mark is the event's latest recording, to be dropped by who has asked; nil where there is none.
func (e *Event) mark() *mark {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest != nil {
		e.latest.users.Add(1)
	}
	return e.latest
}

// drop gives up one use of a mark. The last one gives the driver's event back.
func (m *mark) drop() {
	if m == nil || m.users.Add(-1) > 0 {
		return
	}
	if m.native != 0 {
		m.context.eventsFor(m.timing).put(m.native)
	}
}

// record has the driver record the mark, in a stream, whose mu is held.
func (m *mark) record(s *Stream) error {
	c := m.context
	native, err := c.eventsFor(m.timing).take()
	if err == nil {
		err = c.driver.EventRecord(c.native, native, s.native)
	}
	if err != nil {
		m.abandon()
		return err
	}
	m.settle(native, 0)
	s.endsWith(m)
	return nil
}

// abandon is for a mark that no stream will reach: it counts as reached now.
func (m *mark) abandon() { m.settle(0, m.context.clock.now()) }

func (m *mark) settle(native cudadrv.Event, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled {
		return
	}
	m.settled, m.native, m.clock = true, native, at
	if m.ready != nil {
		close(m.ready)
	}
}

// known reports whether the mark is settled, and what the driver has for it.
func (m *mark) known() (native cudadrv.Event, settled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.native, m.settled
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait returns a channel that is closed once the mark is settled.
func (m *mark) wait() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled {
		return closedChannel
	}
	if m.ready == nil {
		m.ready = make(chan struct{})
	}
	return m.ready
}

// query returns nil when the mark is reached, abi.NotReady while it is not.
func (m *mark) query() error {
	native, settled := m.known()
	switch {
	case !settled:
		return abi.NotReady
	case native == 0 || m.context.stopping():
		return m.context.Fault()
	}
	err := m.context.driver.EventQuery(m.context.native, native)
	if gpu.Code(err) == abi.NotReady {
		return abi.NotReady
	}
	return m.context.noted("query event", err)
}

// NewEvent makes an event.
func (c *Context) NewEvent(options gpu.EventOptions) (gpu.Event, error) {
	if err := c.usable("create event"); err != nil {
		return nil, err
	}
	e := &Event{context: c, timing: options.Timing}
	if options.Moment.Recorded {
		e.latest = &mark{context: c, timing: options.Timing, settled: true, clock: options.Moment.Clock}
		e.latest.users.Store(1)
	}
	return e, nil
}

// ours is the event as this backend's, if it is open.
func ours(event gpu.Event, op string) (*Event, error) {
	e, known := event.(*Event)
	if known {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	if !known || e.closed {
		return nil, &gpu.Error{Op: op, Code: abi.InvalidHandle, Detail: "no such event"}
	}
	return e, nil
}

// Query tells whether the latest recording is reached.
func (e *Event) Query() error {
	if err := e.context.Fault(); err != nil {
		return err
	}
	m := e.mark()
	if m == nil {
		return nil
	}
	defer m.drop()
	return m.query()
}

// Synchronize waits for the latest recording.
func (e *Event) Synchronize() error {
	m := e.mark()
	if m == nil {
		return e.context.Fault()
	}
	defer m.drop()
	<-m.wait()
	for asked := time.Now(); time.Since(asked) < eagerness; {
		if err := m.query(); gpu.Code(err) != abi.NotReady {
			return err
		}
	}
	return m.await()
}

// eagerness is how long who waits for an event keeps asking: the driver wakes a sleeper some ten microseconds late. All our events
// let him sleep, as most who wait are in no hurry; a driver that spins would spend a processor on each.
const eagerness = 200 * time.Microsecond

// ElapsedSince returns the milliseconds from start to e.
func (e *Event) ElapsedSince(start gpu.Event) (float32, error) {
	s, is := start.(*Event)
	if !is || !s.timing || !e.timing {
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "an event without timing"}
	}
	from, to := s.mark(), e.mark()
	defer from.drop()
	defer to.drop()
	if from == nil || to == nil {
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "an event that was never recorded"}
	}
	for _, m := range []*mark{from, to} {
		if err := m.query(); err != nil {
			return 0, err
		}
	}
	if from.native != 0 && to.native != 0 {
		ms, err := e.context.driver.EventElapsedTime(e.context.native, from.native, to.native)
		return ms, e.context.noted("elapsed time", err)
	}
	a, err := from.moment()
	if err != nil {
		return 0, err
	}
	b, err := to.moment()
	return float32(float64(b-a) / float64(time.Millisecond)), err
}

// Close ends the event. Recordings under way are still reached for those who wait already.
func (e *Event) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return &gpu.Error{Op: "destroy event", Code: abi.InvalidHandle, Detail: "the event is destroyed"}
	}
	e.closed = true
	latest := e.latest
	e.latest = nil
	e.mu.Unlock()
	latest.drop()
	return nil
}

// newEvent makes an event of the driver's, for marks with timing or without.
func (c *Context) newEvent(timing bool) (cudadrv.Event, error) {
	var flags uint32 = cudadrv.EventBlockingSync
	if !timing {
		flags |= cudadrv.EventDisableTiming
	}
	return c.driver.EventCreate(c.native, flags)
}

// eventsFor are the driver's events for marks with timing, or without.
func (c *Context) eventsFor(timing bool) *pool[cudadrv.Event] {
	if timing {
		return &c.timed
	}
	return &c.untimed
}

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
	// The driver counts in whole nanoseconds, and says them as a fraction.
	return c.clock.origin + time.Duration(math.Round(float64(ms)*float64(time.Millisecond))), nil
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
