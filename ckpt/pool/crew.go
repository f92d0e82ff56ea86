package pool

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Crew is how many goroutines do a work. Quiet ones yield to the program: their threads have a low
// priority, and end with the work, as what an unprivileged thread has given up it cannot take back.
type Crew struct {
	Count int
	Quiet bool
}

// All is a crew for a time in which nothing else runs.
func All() Crew { return Crew{Count: cores()} }

// Some is a quiet one that leaves half of the processors alone.
func Some() Crew { return Crew{Count: max(cores()/2, 1), Quiet: true} }

// quietNice leaves the copying a quarter of a processor that the program keeps busy too, so that it
// ends all the same.
const quietNice = 5

// Each calls do for all items until one fails.
func Each[T any](ctx context.Context, workers Crew, items []T, do func(T) error) error {
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
	if workers.Quiet && count > 0 {
		defer bring(count)()
	}
	for range count {
		group.Go(func() {
			if workers.Quiet {
				runtime.LockOSThread()
				beQuiet()
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

// beQuiet makes the calling thread give way to the others of its process. Without it the copy is
// only less polite.
func beQuiet() {
	if lent, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil { // 20 less the nice value, as system calls have it
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, min(20-lent+quietNice, 19))
	}
}
