package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrExecutorGone is returned when the executor has closed its event channel.
var ErrExecutorGone = errors.New("executor closed its events")

// ErrEnded is returned by Do behind the end of the loop.
var ErrEnded = errors.New("the scheduler has ended")

// Loop runs a scheduler, once.
type Loop struct {
	Engine   *scheduler.Engine // used by the loop only, while it runs
	Executor scheduler.Executor
	Clock    scheduler.Clock

	// Requests are events from other sources than the executor: submissions and withdrawals. Those
	// that come together are in one step of the engine. It may be nil.
	Requests <-chan []scheduler.Event

	// Report receives the errors of Engine.Step: invalid events and answers, which were ignored. It
	// may be nil.
	Report func(error)

	// Log is called behind each step of the engine, with what the step was given and what it returned:
	// eventlog.Log.Step. An error ends the loop. It may be nil.
	Log func(now time.Duration, events []scheduler.Event, plan scheduler.Plan, stepErr error) error

	prepare sync.Once
	queries chan query
	ended   chan struct{} // closed when the loop has ended
}

// query is a function that Do was called with.
type query struct {
	run  func(*scheduler.Engine)
	done chan struct{} // closed behind its end
}

// init makes the channels. A Loop is made by its fields, so nothing else does.
func (l *Loop) init() {
	l.prepare.Do(func() { l.queries, l.ended = make(chan query), make(chan struct{}) })
}

// Do calls a function with the engine between two steps of the loop, and returns behind its end. No
// event is handled until then, so the function must be short. It must not change the engine. If
// the context ends before the function has begun, it is not called; neither is it behind the end of
// the loop. Do may be called from any goroutine but that of the loop, before Run, too.
func (l *Loop) Do(ctx context.Context, read func(*scheduler.Engine)) error {
	l.init()
	q := query{read, make(chan struct{})}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ended:
		return ErrEnded
	case l.queries <- q:
		<-q.done
		return nil
	}
}

// maxBatch is how many events are passed to the engine at once; a few more if they come together.
const maxBatch = 1024

// Run runs until the context ends or the executor fails, and returns why. Running jobs continue.
func (l *Loop) Run(ctx context.Context) error {
	l.init()
	defer close(l.ended)
	events := l.Executor.Events()
	var batch []scheduler.Event
	for {
		now := l.Clock.Now()
		plan, err := l.Engine.Step(now, batch)
		if err != nil && l.Report != nil {
			l.Report(err)
		}
		if l.Log != nil {
			if err := l.Log(now, batch, plan, err); err != nil {
				return fmt.Errorf("log events: %w", err)
			}
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

// wait returns the next events, or none when it is time for the engine to look again. It answers
// queries until then.
func (l *Loop) wait(
	ctx context.Context,
	events <-chan scheduler.Event,
	batch []scheduler.Event,
) ([]scheduler.Event, error) {
	var timer <-chan time.Time
	if at, ok := l.Engine.Wake(); ok {
		timer = l.Clock.After(max(0, at-l.Clock.Now()))
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case q := <-l.queries:
			q.run(l.Engine)
			close(q.done)
			continue
		case <-timer:
		case ev, open := <-events:
			if !open {
				return nil, ErrExecutorGone
			}
			batch = append(batch, ev)
		case several, open := <-l.Requests:
			if !open {
				l.Requests = nil
				break
			}
			batch = append(batch, several...)
		}
		return l.drainEvents(events, batch), nil
	}
}

// drainEvents adds pending events without waiting.
func (l *Loop) drainEvents(events <-chan scheduler.Event, batch []scheduler.Event) []scheduler.Event {
	for len(batch) < maxBatch {
		select {
		case ev, open := <-events:
			if !open {
				return batch
			}
			batch = append(batch, ev)
		case several, open := <-l.Requests:
			if !open {
				l.Requests = nil
				continue
			}
			batch = append(batch, several...)
		default:
			return batch
		}
	}
	return batch
}

// Wall is the machine's clock, counted from NewWall.
type Wall struct{ start time.Time }

// NewWall returns a clock that starts at 0.
func NewWall() Wall { return Wall{time.Now()} }

// WallSince returns a clock that goes on from the clock of another process, whose time 0 was began.
// It shows at least the given time, the last one that is known of the other clock, even if this
// machine's clock is behind.
func WallSince(began time.Time, least time.Duration) Wall {
	now := time.Now()
	passed := now.Round(0).Sub(began.Round(0)) // without the readings of a clock that began at boot
	return Wall{now.Add(-max(passed, least))}
}

// Now returns the time that has passed. It never goes backwards.
func (w Wall) Now() time.Duration { return time.Since(w.start) }

// After returns a channel that receives a value after a duration.
func (w Wall) After(d time.Duration) <-chan time.Time { return time.After(d) }
