package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrExecutorGone is what ends a loop whose executor has closed its events.
var ErrExecutorGone = errors.New("the executor tells no more events")

// Loop is a scheduler at work.
type Loop struct {
	Engine   *scheduler.Engine // nobody else may use it while the loop runs
	Executor scheduler.Executor
	Clock    scheduler.Clock

	// Requests are the events that do not come from the executor: jobs that are submitted and
	// withdrawn. It may be nil.
	Requests <-chan scheduler.Event

	// Report is told what the engine took no notice of because it made no sense. It may be nil.
	Report func(error)
}

// maxBatch is how many events are told to the engine at once, at the most.
const maxBatch = 1024

// Run works until the context ends or the executor cannot go on, and says why. What runs then, runs
// on.
func (l *Loop) Run(ctx context.Context) error {
	events := l.Executor.Events()
	var batch []scheduler.Event
	for {
		plan, err := l.Engine.Step(l.Clock.Now(), batch)
		if err != nil && l.Report != nil {
			l.Report(err)
		}
		if len(plan.Stops)+len(plan.Starts) > 0 {
			if err := l.Executor.Apply(ctx, plan); err != nil {
				return fmt.Errorf("apply plan: %w", err)
			}
		}
		if batch, err = l.wait(ctx, events, batch[:0]); err != nil {
			return err
		}
	}
}

// wait returns what has happened, once something has, or nothing when it is time for the engine to
// look again.
func (l *Loop) wait(
	ctx context.Context,
	events <-chan scheduler.Event,
	batch []scheduler.Event,
) ([]scheduler.Event, error) {
	var alarm <-chan time.Time
	if at, ok := l.Engine.Wake(); ok {
		alarm = l.Clock.After(max(0, at-l.Clock.Now()))
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-alarm:
	case ev, open := <-events:
		if !open {
			return nil, ErrExecutorGone
		}
		batch = append(batch, ev)
	case ev, open := <-l.Requests:
		if !open {
			l.Requests = nil
			break
		}
		batch = append(batch, ev)
	}
	return l.drainEvents(events, batch), nil
}

// drainEvents adds what has happened meanwhile, without waiting for it.
func (l *Loop) drainEvents(events <-chan scheduler.Event, batch []scheduler.Event) []scheduler.Event {
	for len(batch) < maxBatch {
		select {
		case ev, open := <-events:
			if !open {
				return batch
			}
			batch = append(batch, ev)
		case ev, open := <-l.Requests:
			if !open {
				l.Requests = nil
				continue
			}
			batch = append(batch, ev)
		default:
			return batch
		}
	}
	return batch
}

// Wall is the machine's clock, counted from when it was made.
type Wall struct{ start time.Time }

// NewWall starts counting.
func NewWall() Wall { return Wall{time.Now()} }

// Now is how much time has passed. It never goes backwards.
func (w Wall) Now() time.Duration { return time.Since(w.start) }

// After tells when so much time has passed.
func (w Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }
