package soft

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// item is one entry of a queue.
type item struct {
	stream *Stream
	work   gpu.Work
	// recording is what a Record completes or an Await waits for, resolved at submission. It is nil
	// for an event that was never recorded.
	recording *recording
	// replay is a graph launch; work is unset then.
	replay *replay
}

// batch is a segment of a queue. A list of segments grows without copying and frees memory as it
// shrinks.
type batch struct {
	items []item // capacity batchItems, never more
	next  *batch
}

const batchItems = 128

// queue is a goroutine that runs items in order. It starts with the first item.
type queue struct {
	// pending is set while items are queued. The spinning goroutine reads it without mu.
	pending atomic.Bool
	// parked holds streams that wait, for the shared queue of deterministic mode; nil for others.
	parked *parked

	mu               sync.Mutex
	wake             sync.Cond
	first, last      *batch // queued items; nil if empty
	spare            *batch // an empty batch for reuse
	started, stopped bool
	sleeping         bool
	ended            chan struct{}
}

// idleSpins is how often an idle queue polls for work before it sleeps, about ten microseconds. A
// program that submits one item after another finds the goroutine awake; waking it would cost a
// system call.
const idleSpins = 100

func newQueue() *queue {
	q := &queue{ended: make(chan struct{})}
	q.wake.L = &q.mu
	return q
}

// push queues an item. It returns false after stop.
func (q *queue) push(it item) bool {
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return false
	}
	q.enqueue(it)
	it.stream.submitted.Add(1)
	q.pending.Store(true)
	if !q.started {
		q.started = true
		go q.loop()
	}
	sleeping := q.sleeping
	q.sleeping = false
	q.mu.Unlock()
	if sleeping {
		q.wake.Signal()
	}
	return true
}

// stop ends the goroutine after the queued items, without waiting for it.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.stopped = true
	if !q.started {
		close(q.ended)
	}
	q.sleeping = false
	q.wake.Signal()
}

// enqueue appends an item. mu is held.
func (q *queue) enqueue(it item) {
	if q.last == nil || len(q.last.items) == batchItems {
		b := q.spare
		if q.spare = nil; b == nil {
			b = &batch{items: make([]item, 0, batchItems)}
		}
		if q.last == nil {
			q.first = b
		} else {
			q.last.next = b
		}
		q.last = b
	}
	q.last.items = append(q.last.items, it)
}

// loop runs items until the queue is stopped.
func (q *queue) loop() {
	defer close(q.ended)
	for b := q.take(nil); b != nil; b = q.take(b) {
		for ; ; b = b.next {
			for i := range b.items {
				it := &b.items[i]
				if q.parked == nil {
					it.run()
				} else {
					q.parked.run(it)
				}
				*it = item{} // do not keep finished work alive
			}
			b.items = b.items[:0]
			if b.next == nil {
				break
			}
		}
	}
}

// take waits for items and takes all of them. It returns nil after stop. spare is an empty batch
// for reuse.
func (q *queue) take(spare *batch) *batch {
	for spin := 0; !q.pending.Load() && spin < idleSpins; spin++ {
		runtime.Gosched()
	}
	for !q.pending.Load() && q.parked.pollLater() {
		runtime.Gosched() // what a parked stream waits for may come from outside
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first == nil && !q.stopped {
		q.sleeping = true
		q.wake.Wait()
	}
	if q.spare == nil {
		q.spare = spare
	}
	taken := q.first
	q.first, q.last = nil, nil
	q.pending.Store(false)
	return taken
}

// parked holds the streams of the shared queue whose next item has to wait: for a word in memory,
// or for an event in a stream that is parked itself. The other streams go on. Only the queue's
// goroutine uses it.
type parked struct {
	streams []*Stream // in the order in which they were parked
	items   map[*Stream][]item
}

// run runs an item and then the parked items that became ready. If the item's stream is parked or
// has to wait, it parks the item.
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

// poll runs parked items until none is ready.
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

// pollLater polls after pollInterval and reports whether streams are still parked.
func (p *parked) pollLater() bool {
	if p == nil || len(p.streams) == 0 {
		return false
	}
	<-time.After(pollInterval) // writes of a word cannot be observed
	p.poll()
	return len(p.streams) > 0
}

// run runs the item and counts it as completed.
func (it *item) run() {
	it.stream.run(it)
	it.stream.finished()
}

// ready reports whether an item can run without waiting. It runs the operations on words that come
// before the first wait. Waits inside a graph are not checked.
func (it *item) ready() bool {
	c := it.stream.context
	if c.stopping() {
		return true // the item will be skipped
	}
	switch work := it.work.(type) {
	case gpu.Await:
		return it.recording == nil || it.recording.done.Load()
	case gpu.MemoryOps:
		rest, err := c.runUntilWait(work.Ops)
		it.work = gpu.MemoryOps{Ops: rest}
		return err != nil || len(rest) == 0 // an error is reported when the item runs
	}
	return true
}
