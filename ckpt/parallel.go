package ckpt

import (
	"context"
	"sync"
)

// parallel runs all work at the same time and returns when all of it has returned. The first
// failure is the one that is returned: it ends the context of the others, and what they say then is
// only its consequence.
func parallel(ctx context.Context, work ...func(context.Context) error) error {
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
