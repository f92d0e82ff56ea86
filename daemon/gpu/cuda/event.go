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

// mark is one recording of an event. Each has an event of the driver's to itself, so that who waits
// for it never waits for a later one.
type mark struct {
	context *Context
	timing  bool
	users   atomic.Int32

	mu sync.Mutex
	// settled: the driver has it, or nobody will ever record it.
	settled bool
	native  cudadrv.Event // zero: it is over since clock
	clock   time.Duration // once timed
	timed   bool
	epoch   *epoch        // from which native is timed; nil where nobody asks when it was
	ready   chan struct{} // made by the first who waits for settled
}

// newMark makes the next recording of an event.
func (c *Context) newMark(event gpu.Event) (*mark, error) {
	e, err := ours(event, "record event")
	if err == nil && e.context != c {
		err = &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "the event belongs to another context"}
	}
	if err != nil {
		return nil, err
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
	c := m.context
	if m.native != 0 {
		c.eventsFor(m.timing).put(m.native)
	}
	if m.epoch != nil {
		c.clock.leave(c, m.epoch)
	}
}

// record has the driver record the mark, once, in a stream, whose mu is held.
func (m *mark) record(s *Stream) error {
	c := m.context
	if m.timing {
		m.epoch = c.clock.epoch(c)
	}
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

// settle is done once: a mark is recorded or abandoned.
func (m *mark) settle(native cudadrv.Event, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled, m.native, m.clock, m.timed = true, native, at, native == 0
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
		e.latest = &mark{context: c, timing: options.Timing, settled: true, clock: options.Moment.Clock, timed: true}
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
	err := m.awaitEagerly()
	if c := m.context; err == nil && c.prints.Load() {
		// Only to who waits, the driver shows what kernels have printed.
		if native, _ := m.known(); native != 0 && !c.stopping() {
			err = c.noted("wait for event", c.driver.EventSynchronize(c.native, native))
		}
		c.flush()
	}
	return err
}

// awaitEagerly is await for a mark that is settled.
func (m *mark) awaitEagerly() error {
	for asked := time.Now(); time.Since(asked) < eagerness; {
		if err := m.query(); gpu.Code(err) != abi.NotReady {
			return err
		}
	}
	return m.await()
}

// eagerness is how long who waits for an event keeps asking: the driver wakes a sleeper some ten
// microseconds late. All our events let him sleep, as most who wait are in no hurry; a driver that
// spins would spend a processor on each.
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
	if err := e.context.relate(from, to); err != nil {
		return 0, err
	}
	a, err := from.moment()
	if err != nil {
		return 0, err
	}
	b, err := to.moment()
	return float32(float64(b-a) / float64(time.Millisecond)), err
}

// relate finds out when one of two marks was by the time between them, as the driver says it: that
// is more precise than both times from an epoch are, and what is saved of events says of these two
// for ever what their program is told now.
func (c *Context) relate(from, to *mark) error {
	_, begun := from.time()
	_, ended := to.time()
	if from == to || begun && ended || from.native == 0 || to.native == 0 {
		return nil
	}
	ms, err := c.driver.EventElapsedTime(c.native, from.native, to.native)
	if err != nil {
		return c.noted("elapsed time", err)
	}
	one, other, between := from, to, duration(ms)
	if ended {
		one, other, between = to, from, -between
	}
	at, err := one.moment()
	if err == nil {
		other.timedAt(at + between)
	}
	return err
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

// clock is what a context's events are timed by: the driver's timer. The driver says times between
// two events only, as a float of milliseconds, which tells microseconds apart for some seconds; so
// each recording is timed from an epoch that is not much older.
type clock struct {
	zero time.Time // when the clock said 0, by this machine's

	mu     sync.Mutex
	latest *epoch
}

// epoch is an event of our own, from which later ones are timed. The clock's mu guards it.
type epoch struct {
	native cudadrv.Event
	made   time.Time
	// before is the epoch that this one is timed from; nil once at, what the clock said here, is
	// known.
	before *epoch
	at     time.Duration
	users  int // marks, a later epoch, and the clock
}

// epochAge is how old an epoch is before there is another. A float has 24 bits: 61 nanoseconds at
// this age.
const epochAge = time.Second

// start lets a clock go on from what an earlier one said.
func (k *clock) start(c *Context, from time.Duration) error {
	begun := time.Now() // before the first event, so that now is never behind what an event has said
	first, err := c.newEpoch()
	if err != nil {
		return err
	}
	if err := c.driver.EventSynchronize(c.native, first.native); err != nil {
		return err
	}
	first.at = from
	k.latest, k.zero = first, begun.Add(-from)
	return nil
}

func (c *Context) newEpoch() (*epoch, error) {
	native, err := c.timed.take()
	if err != nil {
		return nil, err
	}
	if err := c.driver.EventRecord(c.native, native, c.aside); err != nil {
		c.timed.put(native)
		return nil, err
	}
	return &epoch{native: native, made: time.Now(), users: 1}, nil
}

// now is what the clock says for what no event of the driver was recorded.
func (k *clock) now() time.Duration { return time.Since(k.zero) }

// epoch is what a recording that is made now is to be timed from; whoever asks gives it back by
// leave. Where the driver makes no new one, an old one does, less precisely.
func (k *clock) epoch(c *Context) *epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	// An epoch comes only after the one before is timed, so that there are never more than two whose
	// time is unknown.
	if old := k.latest; time.Since(old.made) > epochAge && c.driver.EventQuery(c.native, old.native) == nil &&
		k.settle(c, old) == nil {
		if next, err := c.newEpoch(); err == nil {
			next.before, k.latest = old, next // old's use by the clock is next's now
		}
	}
	k.latest.users++
	return k.latest
}

// settle finds out when an epoch was, which it must have been. mu is held.
func (k *clock) settle(c *Context, e *epoch) error {
	if e.before == nil {
		return nil
	}
	ms, err := c.driver.EventElapsedTime(c.native, e.before.native, e.native)
	if err != nil {
		return err
	}
	e.at = e.before.at + duration(ms)
	k.release(c, e.before)
	e.before = nil
	return nil
}

// leave gives up one use of an epoch.
func (k *clock) leave(c *Context, e *epoch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.release(c, e)
}

// release is leave with mu held.
func (k *clock) release(c *Context, e *epoch) {
	if e.users--; e.users == 0 {
		c.timed.put(e.native)
	}
}

// time is what the clock said when something happened that was timed from an epoch.
func (k *clock) time(c *Context, from *epoch, happened cudadrv.Event) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if from.before != nil {
		// It was recorded before what has happened, but in another stream.
		if err := c.driver.EventSynchronize(c.native, from.native); err != nil {
			return 0, err
		}
	}
	if err := k.settle(c, from); err != nil {
		return 0, err
	}
	ms, err := c.driver.EventElapsedTime(c.native, from.native, happened)
	return from.at + duration(ms), err
}

// duration is a time as the driver says it, who counts in whole nanoseconds.
func duration(ms float32) time.Duration {
	return time.Duration(math.Round(float64(ms) * float64(time.Millisecond)))
}

// time is what the clock said when the mark was reached, if that is known already.
func (m *mark) time() (at time.Duration, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock, m.timed || !m.timing
}

// timedAt says when the mark was reached, and is heard once: who asks again gets the same answer.
func (m *mark) timedAt(at time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.timed {
		m.clock, m.timed = at, true
	}
	return m.clock
}

// moment is what the clock said when the mark was reached, which it is.
func (m *mark) moment() (time.Duration, error) {
	if at, known := m.time(); known {
		return at, nil
	}
	c := m.context
	at, err := c.clock.time(c, m.epoch, m.native)
	if err != nil {
		return 0, c.noted("ask when an event happened", err)
	}
	return m.timedAt(at), nil
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
