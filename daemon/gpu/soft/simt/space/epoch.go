package space

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// version counts the changes that invalidate kept spans in any Memory of the process: unmapping and
// clearing dirty bits.
var version atomic.Uint64

// registry holds all Readers. There is one per process, because a kernel may hold spans of several
// memories.
var registry struct {
	mu      sync.Mutex
	readers []*Reader
	free    []*Reader
}

// Reader is one goroutine that accesses memory through spans. Between Enter and Exit it may keep
// spans as long as Version stays the same. It must call Tick about every millisecond; until it
// does, Unmap and ClearDirty wait.
type Reader struct {
	// count is odd between Enter and Exit.
	count   atomic.Uint64
	entered uint64   // the version at the last Enter or Tick; used only by the reader's goroutine
	viewing bool     // its accesses are not recorded
	_       [40]byte // pads to a cache line, because count is written at every tick
}

// Version returns the version of the spans found since the last Enter or Tick. Find may change it.
func (r *Reader) Version() uint64 { return r.entered }

// NewReader registers a reader. The caller releases it with Release.
func NewReader() *Reader {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if n := len(registry.free); n > 0 {
		r := registry.free[n-1]
		registry.free = registry.free[:n-1]
		return r
	}
	r := &Reader{}
	registry.readers = append(registry.readers, r)
	return r
}

// Release unregisters the reader, which must have exited.
func (r *Reader) Release() {
	r.viewing = false
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.free = append(registry.free, r)
}

// Enter starts a section that may hold spans and returns their version.
func (r *Reader) Enter() uint64 {
	r.count.Add(1)
	r.entered = version.Load()
	return r.entered
}

// Exit ends the section.
func (r *Reader) Exit() { r.count.Add(1) }

// Tick promises that no span of an older version than the returned one will be used again.
func (r *Reader) Tick() uint64 {
	r.count.Add(2)
	r.entered = version.Load()
	return r.entered
}

// invalidateSpans makes all kept spans stale and waits until none is in use. The caller must not
// hold spans.
func invalidateSpans() { invalidateUntil(func() bool { return false }) }

// maxSpanWait is how long tryInvalidateSpans waits. A copy holds a span for longer if its other end
// is a stopped program.
const maxSpanWait = 100 * time.Millisecond

// tryInvalidateSpans is invalidateSpans with a time limit. It reports whether no stale span is in
// use.
func tryInvalidateSpans() bool {
	end := time.Now().Add(maxSpanWait)
	return invalidateUntil(func() bool { return time.Now().After(end) })
}

// invalidateUntil makes all kept spans stale and waits until none is in use. It returns false once
// late returns true.
func invalidateUntil(late func() bool) bool {
	version.Add(1)
	registry.mu.Lock()
	readers := registry.readers
	registry.mu.Unlock()
	for _, r := range readers {
		seen := r.count.Load()
		if seen&1 == 0 {
			continue
		}
		for spins := 0; r.count.Load() == seen; spins++ {
			if spins < 20 {
				runtime.Gosched()
				continue
			}
			if late() {
				return false
			}
			time.Sleep(20 * time.Microsecond) //nolint:forbidigo // readers must stay cheap, so they do not notify
		}
	}
	return true
}
