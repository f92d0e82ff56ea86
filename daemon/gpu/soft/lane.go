package soft

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// item is one thing queued in a lane.
type item struct {
	stream *Stream
	work   gpu.Work
	// mark is what a Record completes or an Await waits for, as of submission; nil for an event never recorded.
	mark *mark
	// replay is a launch of a graph, with work unset.
	replay *replay
}

// batch is a piece of a queue. A list of pieces grows without copying and shrinks without keeping memory.
type batch struct {
	items []item // its capacity is batchItems, never more
	next  *batch
}

const batchItems = 128

// lane is a goroutine that runs items in order. It starts with the first item.
type lane struct {
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

// idleSpins is how often an idle lane looks for work before it sleeps: some ten microseconds, in which a program that
// submits one thing after the other comes back. Waking a sleeping goroutine costs the submitter a system call.
const idleSpins = 100

func newLane() *lane {
	l := &lane{ended: make(chan struct{})}
	l.wake.L = &l.mu
	return l
}

// push queues an item; false after stop.
func (l *lane) push(it item) bool {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return false
	}
	l.append(it)
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
func (l *lane) stop() {
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

// append puts an item at the end of the queue. mu is held.
func (l *lane) append(it item) {
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

func (l *lane) loop() {
	defer close(l.ended)
	for b := l.take(nil); b != nil; b = l.take(b) {
		for ; ; b = b.next {
			for i := range b.items {
				it := &b.items[i]
				if l.parked == nil {
					it.do()
				} else {
					l.parked.do(it)
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

// take waits for items and takes all there are; nil means that the lane was stopped. It gives back an empty batch.
func (l *lane) take(spare *batch) *batch {
	for spin := 0; !l.pending.Load() && spin < idleSpins; spin++ {
		runtime.Gosched()
	}
	for !l.pending.Load() && l.parked.waiting() {
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
