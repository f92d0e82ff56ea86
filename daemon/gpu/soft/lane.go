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

// lane is a goroutine that runs items in order. It starts with the first item.
type lane struct {
	// pending is the number of queued items, readable without mu by the spinning goroutine.
	pending atomic.Int64

	mu               sync.Mutex
	wake             sync.Cond
	queue            []item
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
	l.queue = append(l.queue, it)
	it.stream.submitted.Add(1)
	l.pending.Add(1)
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

func (l *lane) loop() {
	defer close(l.ended)
	var batch []item
	for {
		if batch = l.take(batch); len(batch) == 0 {
			return
		}
		for i := range batch {
			it := &batch[i]
			it.stream.run(it)
			it.stream.finished()
			*it = item{} // what ran must not be kept alive by the queue's memory
		}
	}
}

// maxSpareItems bounds the memory that a lane keeps for its next batch.
const maxSpareItems = 4096

// take waits for items and swaps them for an empty slice to fill next. No items means that the lane was stopped.
func (l *lane) take(spare []item) []item {
	for spin := 0; l.pending.Load() == 0 && spin < idleSpins; spin++ {
		runtime.Gosched()
	}
	if cap(spare) > maxSpareItems {
		spare = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.stopped {
		l.sleeping = true
		l.wake.Wait()
	}
	batch := l.queue
	l.queue = spare[:0]
	l.pending.Store(0)
	return batch
}
