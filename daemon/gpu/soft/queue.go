package soft

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// item is one thing queued in a lane.
type item struct {
	stream *Stream
	work   gpu.Work
	// recording is what a Record completes or an Await waits for, as of submission; nil for an event never
	// recorded.
	recording *recording
	// replay is a launch of a graph, with work unset.
	replay *replay
}

// batch is a piece of a queue. A list of pieces grows without copying and shrinks without keeping
// memory.
type batch struct {
	items []item // its capacity is batchItems, never more
	next  *batch
}

const batchItems = 128

// queue is a goroutine that runs items in order. It starts with the first item.
type queue struct {
	// pending says that something is queued, readable without mu by the spinning goroutine.
	pending atomic.Bool
	// parked is of the lane that all streams share in deterministic mode, nil in others.
	parked *parked

	mu               sync.Mutex
	wake             sync.Cond
	first, last      *batch // what is queued; nil where nothing is
	spare            *batch // an empty one
	started, stopped bool
	sleeping         bool
	ended            chan struct{}
}

// idleSpins is how often an idle lane looks for work before it sleeps: some ten microseconds, in
// which a program that submits one thing after the other comes back. Waking a sleeping goroutine
// costs the submitter a system call.
const idleSpins = 100

func newQueue() *queue {
	l := &queue{ended: make(chan struct{})}
	l.wake.L = &l.mu
	return l
}

// push queues an item; false after stop.
func (l *queue) push(it item) bool {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return false
	}
	l.enqueue(it)
	it.stream.submitted.Add(1)
	l.pending.Store(true)
	if !l.started {
		l.started = true
		go l.loop()
	}
	sleeping := l.sleeping
	l.sleeping = false
	l.mu.Unlock()
	if sleeping {
		l.wake.Signal()
	}
	return true
}

// stop lets the lane end after what is queued, and does not wait for it.
func (l *queue) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped = true
	if !l.started {
		close(l.ended)
	}
	l.sleeping = false
	l.wake.Signal()
}

// enqueue puts an item at the end of the queue. mu is held.
func (l *queue) enqueue(it item) {
	if l.last == nil || len(l.last.items) == batchItems {
		b := l.spare
		if l.spare = nil; b == nil {
			b = &batch{items: make([]item, 0, batchItems)}
		}
		if l.last == nil {
			l.first = b
		} else {
			l.last.next = b
		}
		l.last = b
	}
	l.last.items = append(l.last.items, it)
}

func (l *queue) loop() {
	defer close(l.ended)
	for b := l.take(nil); b != nil; b = l.take(b) {
		for ; ; b = b.next {
			for i := range b.items {
				it := &b.items[i]
				if l.parked == nil {
					it.run()
				} else {
					l.parked.run(it)
				}
				*it = item{} // what ran must not be kept alive by the queue's memory
			}
			b.items = b.items[:0]
			if b.next == nil {
				break
			}
		}
	}
}

// take waits for items and takes all there are; nil means that the lane was stopped. It gives back
// an empty batch.
func (l *queue) take(spare *batch) *batch {
	for spin := 0; !l.pending.Load() && spin < idleSpins; spin++ {
		runtime.Gosched()
	}
	for !l.pending.Load() && l.parked.pollLater() {
		runtime.Gosched() // what they wait for may come from outside
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.first == nil && !l.stopped {
		l.sleeping = true
		l.wake.Wait()
	}
	if l.spare == nil {
		l.spare = spare
	}
	taken := l.first
	l.first, l.last = nil, nil
	l.pending.Store(false)
	return taken
}

// parked are the streams of the one lane of deterministic mode whose next item waits for what may
// come later in the lane, or from outside: a word that has not its value yet, an event in a stream
// that is parked itself. The others go on meanwhile. Only the lane's goroutine knows of it.
type parked struct {
	streams []*Stream // as they came
	items   map[*Stream][]item
}

// run runs an item, unless its stream is parked or must be now, and then those that wait no longer.
func (p *parked) run(it *item) {
	held := p.items[it.stream]
	if len(held) == 0 && it.ready() {
		it.run()
		p.poll()
		return
	}
	if len(held) == 0 {
		p.streams = append(p.streams, it.stream)
	}
	if p.items == nil {
		p.items = map[*Stream][]item{}
	}
	p.items[it.stream] = append(held, *it)
}

// poll lets go on who waits no longer, until nobody can.
func (p *parked) poll() {
	for again := true; again; {
		again = false
		p.streams = slices.DeleteFunc(p.streams, func(s *Stream) bool {
			items := p.items[s]
			for len(items) > 0 && items[0].ready() {
				items[0].run()
				items[0] = item{}
				items, again = items[1:], true
			}
			p.items[s] = items
			if len(items) == 0 {
				delete(p.items, s)
			}
			return len(items) == 0
		})
	}
}

// pollLater reports, after a look some time later, whether somebody still waits.
func (p *parked) pollLater() bool {
	if p == nil || len(p.streams) == 0 {
		return false
	}
	<-time.After(pollInterval) // words say nothing when they change
	p.poll()
	return len(p.streams) > 0
}

func (it *item) run() {
	it.stream.run(it)
	it.stream.finished()
}

// ready reports whether an item can be run without waiting for anybody else. Of operations on words
// it does those that come before the first that waits. What waits inside a graph is not looked at.
func (it *item) ready() bool {
	c := it.stream.context
	if c.stopping() {
		return true // and is passed over
	}
	if it.replay != nil {
		return it.replay.previous == nil || it.replay.previous.done.Load()
	}
	switch work := it.work.(type) {
	case gpu.Await:
		return it.recording == nil || it.recording.done.Load()
	case gpu.MemoryOps:
		rest, err := c.runUntilWait(work.Ops)
		it.work = gpu.MemoryOps{Ops: rest}
		return err != nil || len(rest) == 0 // it fails again when it is run
	}
	return true
}
