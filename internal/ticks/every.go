package ticks

import (
	"context"
	"iter"
	"time"
)

// Every is a loop whose body runs after each interval, until the context ends or the loop is left:
//
//	for range ticks.Every(ctx, time.Minute) { ... }
//
// Intervals that pass while the body runs are made up for by one run at most.
func Every(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(body func(time.Time) bool) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				if ctx.Err() != nil || !body(now) {
					return
				}
			}
		}
	}
}

// Pause waits for a time, or returns the error of the context.
func Pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
