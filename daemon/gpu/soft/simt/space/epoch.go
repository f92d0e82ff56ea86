package space

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// version counts the changes that make kept spans wrong: unmapping and clearing marks, in any
// Memory of the process.
var version atomic.Uint64

// registry knows every Reader. It is one for the process, because a kernel may hold spans of
// several memories.
var registry struct {
	mu      sync.Mutex
	readers []*Reader
	free    []*Reader
}

// Reader is one goroutine that touches memory through spans. Between Enter and Exit it may keep
// spans as long as Version stays the same, and must call Tick every millisecond or so, or it holds
// up Unmap and ClearWritten.
type Reader struct {
	// count is odd between Enter and Exit.
	count   atomic.Uint64
	entered uint64   // the version at the last Enter or Tick; only its own goroutine reads it
	viewing bool     // what it looks up is no touch
	_       [40]byte // its own cache line: it is written at every tick
}

// Version is what spans found since the last Enter or Tick belong to. Find may change it.
func (r *Reader) Version() uint64 { return r.entered }

// NewReader registers a reader; give it back with Release.
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

// Release takes the reader out of use. It must have exited.
func (r *Reader) Release() {
	r.viewing = false
	registry.mu.Lock()
	defer registry.mu.Unlock()
	registry.free = append(registry.free, r)
}

// Enter begins a time of holding spans and returns the version they belong to.
func (r *Reader) Enter() uint64 {
	r.count.Add(1)
	r.entered = version.Load()
	return r.entered
}

// Exit ends it.
func (r *Reader) Exit() { r.count.Add(1) }

// Tick says that no span of an older version than the one returned will be used any more.
func (r *Reader) Tick() uint64 {
	r.count.Add(2)
	r.entered = version.Load()
	return r.entered
}

// invalidateSpans makes all kept spans stale and waits until nobody uses one. The caller must not hold spans
// itself.
func invalidateSpans() { invalidateUntil(func() bool { return false }) }

// maxSpanWait is how long those wait for spans who can do without. A span is held for longer by a
// copy whose other end is a program that stands still.
const maxSpanWait = 100 * time.Millisecond

// tryInvalidateSpans is retire for those who can do without: it reports whether nobody uses a stale span
// any more.
func tryInvalidateSpans() bool {
	end := time.Now().Add(maxSpanWait)
	return invalidateUntil(func() bool { return time.Now().After(end) })
}

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
			time.Sleep(20 * time.Microsecond) //nolint:forbidigo // readers must stay cheap, so they tell nobody
		}
	}
	return true
}
