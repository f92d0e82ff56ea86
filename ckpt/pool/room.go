package pool

import (
	"runtime"
	"sync"
)

// procs is how many threads Go's scheduler may run at once. A background thread that the kernel has
// preempted still occupies one of them, and the program's goroutines would wait for it although a
// processor is free. So each background worker raises GOMAXPROCS by one.
var room struct {
	mu    sync.Mutex
	added int // by background workers
}

// cores returns GOMAXPROCS without the background workers' share.
func cores() int {
	room.mu.Lock()
	defer room.mu.Unlock()
	return runtime.GOMAXPROCS(0) - room.added
}

// raiseProcs raises GOMAXPROCS by n until the returned function is called.
func bring(places int) (takeAway func()) {
	add := func(n int) {
		room.mu.Lock()
		defer room.mu.Unlock()
		room.added += n
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	}
	add(places)
	return func() { add(-places) }
}
