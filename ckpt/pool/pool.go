package pool

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Workers says how many goroutines of this process share some work; they are not the processes of
// that name. Background ones yield to the program: their threads have a low priority and exit
// afterwards, because an unprivileged thread cannot raise its priority again.
type Workers struct {
	Count      int
	Background bool
}

// All returns workers for a time in which nothing else runs.
func All() Workers { return Workers{Count: cores()} }

// Background returns background workers that leave half of the processors free.
func Background() Workers { return Workers{Count: max(cores()/2, 1), Background: true} }

// backgroundNice leaves background workers about a quarter of a busy processor, so that their work
// still ends.
const backgroundNice = 5

// Each calls do for all items until one call fails.
func Each[T any](ctx context.Context, workers Workers, items []T, do func(T) error) error {
	var (
		next  atomic.Int64
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := func() {
		for ctx.Err() == nil {
			at := next.Add(1) - 1
			if at >= int64(len(items)) {
				return
			}
			if err := do(items[at]); err != nil {
				once.Do(func() { first = err })
				stop()
			}
		}
	}
	count := min(max(workers.Count, 1), len(items))
	if workers.Background && count > 0 {
		defer raiseProcs(count)()
	}
	for range count {
		group.Go(func() {
			if workers.Background {
				runtime.LockOSThread()
				lowerPriority()
			}
			work()
		})
	}
	group.Wait()
	if first == nil && next.Load() < int64(len(items)) {
		return context.Cause(ctx)
	}
	return first
}

// lowerPriority lowers the priority of the calling thread. Errors are ignored: the copy then only
// competes with the program.
func lowerPriority() {
	// 20 minus the nice value, as the system call returns it
	if lent, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-lent+backgroundNice, 19))
	}
}
