package pool

import (
	"context"
	"sync"
)

// Run runs all functions in parallel and returns when all have returned. It returns the first
// error, which also ends the context of the others: their errors are only its consequence.
func Run(ctx context.Context, work ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, each := range work {
		all.Go(func() {
			if err := each(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
