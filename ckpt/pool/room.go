package pool

import (
	"runtime"
	"sync"
)

// room is what Go's scheduler may run at once. A quiet thread that the kernel has put aside still
// holds its place there, and the program's goroutines would wait for it although a processor is
// free; so quiet goroutines bring places with them.
var room struct {
	mu     sync.Mutex
	places int // that quiet goroutines have brought
}

// cores is how many goroutines can run at once when no quiet ones do.
func cores() int {
	room.mu.Lock()
	defer room.mu.Unlock()
	return runtime.GOMAXPROCS(0) - room.places
}

// bring adds places until the returned function is called.
func bring(places int) (takeAway func()) {
	add := func(n int) {
		room.mu.Lock()
		defer room.mu.Unlock()
		room.places += n
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
	}
	add(places)
	return func() { add(-places) }
}
