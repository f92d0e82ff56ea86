package ethernet

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"sync"
	"time"
)

// What a line holds at most; frames beyond that are dropped, as by a device whose buffer is full.
const (
	mostQueuedBytes = 64 << 20
	// mostBacklog is how long a frame may wait until a line of limited rate is free.
	mostBacklog = 200 * time.Millisecond
)

// line carries frames from one port to another, in that direction only.
type line struct {
	deliver func(frame []byte)

	mu         sync.Mutex
	conditions Conditions
	random     *rand.Rand
	queue      queue
	bytes      int    // in the queue
	accepted   uint64 // frames so far
	// free is when all accepted frames have left a line of limited rate. last is when the last
	// frame is due; without jitter, none is delivered before an earlier one.
	free, last time.Time
	timer      *time.Timer
}

// newLine returns a line that calls deliver, one frame at a time. Its random choices depend on the
// seed only.
func newLine(seed uint64, deliver func(frame []byte)) *line {
	return &line{deliver: deliver, random: rand.New(rand.NewPCG(seed, 0))}
}

// set changes the conditions. Frames on their way arrive when the new conditions would deliver
// them, if that is earlier.
func (l *line) set(change func(*Conditions)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.conditions)
	if l.conditions.Cut {
		l.clear()
		return
	}
	latest := time.Now().Add(l.conditions.Delay + l.conditions.Jitter)
	for i := range l.queue {
		if l.queue[i].due.After(latest) {
			l.queue[i].due = latest
		}
	}
	heap.Init(&l.queue)
	if l.last.After(latest) {
		l.last = latest
	}
	l.free = time.Time{}
	l.arm()
}

// drop drops all frames on their way.
func (l *line) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

// clear is drop, with the lock held.
func (l *line) clear() { l.queue, l.bytes, l.last, l.free = nil, 0, time.Time{}, time.Time{} }

// get returns the conditions.
func (l *line) get() Conditions {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conditions
}

// send delivers a frame, now or later, or drops it. The caller may reuse the frame.
func (l *line) send(frame []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conditions.Cut || l.conditions.Loss > 0 && l.random.Float64() < l.conditions.Loss {
		return
	}
	if l.conditions.immediate() && len(l.queue) == 0 {
		l.deliver(frame)
		return
	}
	due, fits := l.admit(len(frame))
	if !fits {
		return
	}
	l.accepted++
	l.bytes += len(frame)
	heap.Push(&l.queue, waiting{due, l.accepted, bytes.Clone(frame)})
	l.arm()
}

// admit returns when a frame will arrive, or that there is no room for it.
func (l *line) admit(bytes int) (due time.Time, fits bool) {
	now := time.Now()
	begins := now
	if l.free.After(now) {
		begins = l.free
	}
	if begins.Sub(now) > mostBacklog || l.bytes+bytes > mostQueuedBytes {
		return now, false
	}
	l.free = begins.Add(l.conditions.transmission(bytes))
	due = l.free.Add(l.conditions.Delay)
	if l.conditions.Jitter > 0 {
		due = due.Add(time.Duration(l.random.Int64N(int64(l.conditions.Jitter) + 1)))
	} else if due.Before(l.last) {
		due = l.last
	}
	l.last = due
	return due, true
}

// arm sets the timer for the next frame.
func (l *line) arm() {
	if len(l.queue) == 0 {
		return
	}
	next := time.Until(l.queue[0].due)
	if l.timer == nil {
		l.timer = time.AfterFunc(next, l.deliverDue)
	} else {
		l.timer.Reset(next)
	}
}

// deliverDue delivers the frames whose time has come.
func (l *line) deliverDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for now := time.Now(); len(l.queue) > 0 && !l.queue[0].due.After(now); {
		next := heap.Pop(&l.queue).(waiting)
		l.bytes -= len(next.frame)
		l.deliver(next.frame)
	}
	l.arm()
}
