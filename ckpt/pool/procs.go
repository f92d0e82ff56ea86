package pool

import (
	"runtime"
	"sync"
)

// procs is how many threads Go's scheduler may run at once. A background thread that the kernel has
// preempted still occupies one of them, and the program's goroutines would wait for it although a
// processor is free. So each background worker raises GOMAXPROCS by one.
var procs struct {
	mu    sync.Mutex
	added int // by background workers
}

// cores returns GOMAXPROCS without the background workers' share.
func cores() int {
	procs.mu.Lock()
	defer procs.mu.Unlock()
	return runtime.GOMAXPROCS(0) - procs.added
}

// raiseProcs raises GOMAXPROCS by n until the returned function is called.
func raiseProcs(places int) (takeAway func()) {
	add := func(n int) {
		procs.mu.Lock()
		defer procs.mu.Unlock()
		procs.added += n
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	}
	add(places)
	return func() { add(-places) }
}
