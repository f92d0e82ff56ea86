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

// Event is a point in a stream: its latest event record.
type Event struct {
	context *Context
	timing  bool

	mu     sync.Mutex
	latest *eventRecord // nil if never recorded
	closed bool
}

// eventRecord is one recording of an event. Each has its own event of the driver, so that a wait
// for it never waits for a later recording. It is reference-counted.
type eventRecord struct {
	context    *Context
	timing     bool
	references atomic.Int32

	mu sync.Mutex
	// settled is set once the driver has recorded it, or once it is abandoned.
	settled     bool
	native      cudadrv.Event // zero if abandoned: it was reached at reachedTime
	reachedTime time.Duration // valid if timed
	timed       bool
	epoch       *epoch        // start of the time measurement; nil without timing
	ready       chan struct{} // closed when settled; made by the first waiter
}

// newRecord makes the next recording of an event.
func (c *Context) newRecord(event gpu.Event) (*eventRecord, error) {
	e, err := ownEvent(event, "record event")
	if err == nil && e.context != c {
		err = &gpu.Error{Op: "record event", Code: abi.InvalidHandle, Detail: "the event belongs to another context"}
	}
	if err != nil {
		return nil, err
	}
	m := &eventRecord{context: c, timing: e.timing}
	m.references.Store(2) // the event and the stream
	e.mu.Lock()
	old := e.latest
	e.latest = m
	e.mu.Unlock()
	old.release()
	return m, nil
}

// acquire returns the event's latest recording, or nil; the caller releases it.
func (e *Event) acquire() *eventRecord {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest != nil {
		e.latest.references.Add(1)
	}
	return e.latest
}

// release drops a reference. The last one returns the driver's event to the pool.
func (m *eventRecord) release() {
	if m == nil || m.references.Add(-1) > 0 {
		return
	}
	c := m.context
	if m.native != 0 {
		c.eventsFor(m.timing).put(m.native)
	}
	if m.epoch != nil {
		c.clock.releaseEpoch(c, m.epoch)
	}
}

// record records the driver's event in a stream, once. The stream's mu is held.
func (m *eventRecord) record(s *Stream) error {
	c := m.context
	if m.timing {
		m.epoch = c.clock.acquireEpoch(c)
	}
	native, err := c.eventsFor(m.timing).get()
	if err == nil {
		err = c.driver.EventRecord(c.native, native, s.native)
	}
	if err != nil {
		m.abandon()
		return err
	}
	m.settle(native, 0)
	s.setTail(m)
	return nil
}

// abandon settles a recording that no stream will reach: it counts as reached now.
func (m *eventRecord) abandon() { m.settle(0, m.context.clock.now()) }

// settle is called once, when the event is recorded or abandoned.
func (m *eventRecord) settle(native cudadrv.Event, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settled, m.native, m.reachedTime, m.timed = true, native, at, native == 0
	if m.ready != nil {
		close(m.ready)
	}
}

// state returns the driver's event, and whether the recording is settled.
func (m *eventRecord) state() (native cudadrv.Event, settled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.native, m.settled
}

var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// settling returns a channel that is closed when the recording is settled.
func (m *eventRecord) settling() <-chan struct{} {
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

// query returns nil when the recording is reached, abi.NotReady while it is not.
func (m *eventRecord) query() error {
	native, settled := m.state()
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
	return m.context.driverErr("query event", err)
}

// NewEvent creates an event.
func (c *Context) NewEvent(options gpu.EventOptions) (gpu.Event, error) {
	if err := c.usable("create event"); err != nil {
		return nil, err
	}
	e := &Event{context: c, timing: options.Timing}
	if options.Time.Recorded {
		e.latest = &eventRecord{
			context: c, timing: options.Timing, settled: true, reachedTime: options.Time.Clock,
			timed: true,
		}
		e.latest.references.Store(1)
	}
	return e, nil
}

// ownEvent returns the event as this backend's, if it is open.
func ownEvent(event gpu.Event, op string) (*Event, error) {
	e, ok := event.(*Event)
	if ok {
		e.mu.Lock()
		defer e.mu.Unlock()
	}
	if !ok || e.closed {
		return nil, &gpu.Error{Op: op, Code: abi.InvalidHandle, Detail: "no such event"}
	}
	return e, nil
}

// Query returns nil when the latest recording is reached, abi.NotReady while it is not.
func (e *Event) Query() error {
	if err := e.context.Fault(); err != nil {
		return err
	}
	m := e.acquire()
	if m == nil {
		return nil
	}
	defer m.release()
	return m.query()
}

// Synchronize waits for the latest recording.
func (e *Event) Synchronize() error {
	m := e.acquire()
	if m == nil {
		return e.context.Fault()
	}
	defer m.release()
	<-m.settling()
	err := m.spinWait()
	if c := m.context; err == nil && c.canPrint.Load() {
		// The driver flushes device printf only on a synchronizing call.
		if native, _ := m.state(); native != 0 && !c.stopping() {
			err = c.driverErr("wait for event", c.driver.EventSynchronize(c.native, native))
		}
		c.flush()
	}
	return err
}

// spinWait is wait that polls for spinTime first.
func (m *eventRecord) spinWait() error {
	for asked := time.Now(); time.Since(asked) < spinTime; {
		if err := m.query(); gpu.Code(err) != abi.NotReady {
			return err
		}
	}
	return m.wait()
}

// spinTime is how long Synchronize polls before it blocks. The driver wakes a blocked thread some
// ten microseconds late. All events of this package block, because most waits are not urgent, and a
// driver that spins would occupy a CPU core for each.
const spinTime = 200 * time.Microsecond

// ElapsedSince returns the milliseconds from start to e.
func (e *Event) ElapsedSince(start gpu.Event) (float32, error) {
	s, ok := start.(*Event)
	if !ok || !s.timing || !e.timing {
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "the event has no timing"}
	}
	from, to := s.acquire(), e.acquire()
	defer from.release()
	defer to.release()
	if from == nil || to == nil {
		return 0, &gpu.Error{Op: "elapsed time", Code: abi.InvalidHandle, Detail: "the event was never recorded"}
	}
	for _, m := range []*eventRecord{from, to} {
		if err := m.query(); err != nil {
			return 0, err
		}
	}
	if err := e.context.relateTimes(from, to); err != nil {
		return 0, err
	}
	a, err := from.reachedAt()
	if err != nil {
		return 0, err
	}
	b, err := to.reachedAt()
	return float32(float64(b-a) / float64(time.Millisecond)), err
}

// relateTimes computes one of two times from the other and the time between them, as reported by
// the driver. That is more precise than two times from an epoch. Saved event times keep exactly the
// difference that the program was told.
func (c *Context) relateTimes(from, to *eventRecord) error {
	_, fromKnown := from.knownTime()
	_, toKnown := to.knownTime()
	if from == to || fromKnown && toKnown || from.native == 0 || to.native == 0 {
		return nil
	}
	ms, err := c.driver.EventElapsedTime(c.native, from.native, to.native)
	if err != nil {
		return c.driverErr("elapsed time", err)
	}
	one, other, between := from, to, duration(ms)
	if toKnown {
		one, other, between = to, from, -between
	}
	at, err := one.reachedAt()
	if err == nil {
		other.setTime(at + between)
	}
	return err
}

// Close destroys the event. Pending waits for its recordings still end.
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
	latest.release()
	return nil
}

// newEvent creates an event of the driver, for recordings with or without timing.
func (c *Context) newEvent(timing bool) (cudadrv.Event, error) {
	var flags uint32 = cudadrv.EventBlockingSync
	if !timing {
		flags |= cudadrv.EventDisableTiming
	}
	return c.driver.EventCreate(c.native, flags)
}

// eventsFor returns the pool of the driver's events with or without timing.
func (c *Context) eventsFor(timing bool) *pool[cudadrv.Event] {
	if timing {
		return &c.timed
	}
	return &c.untimed
}

// clock is the time base of a context's events: the driver's timer. The driver only reports the
// time between two events, as float milliseconds, which has a resolution of microseconds for some
// seconds. So each recording is timed from an epoch that is not much older.
type clock struct {
	zero time.Time // host time at which the clock was 0

	mu     sync.Mutex
	latest *epoch
}

// epoch is a driver event from which later ones are timed. The clock's mu guards it.
type epoch struct {
	native cudadrv.Event
	made   time.Time
	// before is the epoch that this one is timed from; nil once at, its time, is known.
	before     *epoch
	at         time.Duration
	references int // references of event records, a later epoch, and the clock
}

// epochAge is the age at which an epoch is replaced. A float has 24 bits: 61 nanoseconds at this
// age.
const epochAge = time.Second

// start starts the clock at the time of an earlier one.
func (k *clock) start(c *Context, from time.Duration) error {
	begun := time.Now() // before the first event, so that now is never earlier than an event's time
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

// newEpoch records an epoch in the side stream.
func (c *Context) newEpoch() (*epoch, error) {
	native, err := c.timed.get()
	if err != nil {
		return nil, err
	}
	if err := c.driver.EventRecord(c.native, native, c.side); err != nil {
		c.timed.put(native)
		return nil, err
	}
	return &epoch{native: native, made: time.Now(), references: 1}, nil
}

// now returns the host's estimate of the clock, for recordings without a driver event.
func (k *clock) now() time.Duration { return time.Since(k.zero) }

// acquireEpoch returns the epoch for a new recording; the caller releases it. If the driver cannot
// create a new one, it returns the old one, which is less precise.
func (k *clock) acquireEpoch(c *Context) *epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The old epoch is timed before a new one is made, so at most two epochs have an unknown time.
	if old := k.latest; time.Since(old.made) > epochAge && c.driver.EventQuery(c.native, old.native) == nil &&
		k.fixTime(c, old) == nil {
		if next, err := c.newEpoch(); err == nil {
			next.before, k.latest = old, next // the clock's reference to old passes to next
		}
	}
	k.latest.references++
	return k.latest
}

// fixTime computes the time of an epoch, which must be reached. mu is held.
func (k *clock) fixTime(c *Context, e *epoch) error {
	if e.before == nil {
		return nil
	}
	ms, err := c.driver.EventElapsedTime(c.native, e.before.native, e.native)
	if err != nil {
		return err
	}
	e.at = e.before.at + duration(ms)
	k.releaseLocked(c, e.before)
	e.before = nil
	return nil
}

// releaseEpoch drops a reference to an epoch.
func (k *clock) releaseEpoch(c *Context, e *epoch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.releaseLocked(c, e)
}

// releaseLocked is releaseEpoch with mu held.
func (k *clock) releaseLocked(c *Context, e *epoch) {
	if e.references--; e.references == 0 {
		c.timed.put(e.native)
	}
}

// timeOf returns the clock at a driver event that is timed from an epoch.
func (k *clock) timeOf(c *Context, from *epoch, happened cudadrv.Event) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if from.before != nil {
		// The epoch was recorded before the event, but in another stream.
		if err := c.driver.EventSynchronize(c.native, from.native); err != nil {
			return 0, err
		}
	}
	if err := k.fixTime(c, from); err != nil {
		return 0, err
	}
	ms, err := c.driver.EventElapsedTime(c.native, from.native, happened)
	return from.at + duration(ms), err
}

// duration converts float milliseconds of the driver to whole nanoseconds.
func duration(ms float32) time.Duration {
	return time.Duration(math.Round(float64(ms) * float64(time.Millisecond)))
}

// knownTime returns the time at which the recording was reached, if it is known already.
func (m *eventRecord) knownTime() (at time.Duration, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.reachedTime, m.timed || !m.timing
}

// setTime sets the recording's time and returns it. Only the first call has an effect.
func (m *eventRecord) setTime(at time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.timed {
		m.reachedTime, m.timed = at, true
	}
	return m.reachedTime
}

// reachedAt returns the time of a recording that is reached.
func (m *eventRecord) reachedAt() (time.Duration, error) {
	if at, ok := m.knownTime(); ok {
		return at, nil
	}
	c := m.context
	at, err := c.clock.timeOf(c, m.epoch, m.native)
	if err != nil {
		return 0, c.driverErr("query event time", err)
	}
	return m.setTime(at), nil
}

// Continuation returns the state for the context that replaces this one.
func (c *Context) Continuation() gpu.Continuation {
	return gpu.Continuation{Clock: c.clock.now(), Launches: c.launches.Load()}
}

// EventTime returns when the latest recording of an event was reached.
func (c *Context) EventTime(event gpu.Event) (gpu.EventTime, error) {
	e, err := ownEvent(event, "query event time")
	if err != nil {
		return gpu.EventTime{}, err
	}
	m := e.acquire()
	if m == nil {
		return gpu.EventTime{}, nil
	}
	defer m.release()
	if err := m.query(); gpu.Code(err) == abi.NotReady {
		return gpu.EventTime{}, err
	}
	at, err := m.reachedAt()
	if c.Fault() != nil {
		return gpu.EventTime{Recorded: true, Clock: c.clock.now()}, nil // after a fault the driver reports no times
	}
	return gpu.EventTime{Recorded: true, Clock: at}, err
}

// Poison makes err the context's fault.
func (c *Context) Poison(err error) { c.poison(err) }
