package ckpt

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// step is an action and its undo.
type step struct {
	// name is also the step's failpoint.
	name string
	do   func(context.Context) error
	// undo is called if this step or a later one fails. do may have stopped half way or never
	// begun. It may be nil.
	undo func()
}

// sequence runs steps and keeps what must be undone.
type sequence struct {
	fail Failpoints
	log  *slog.Logger
	// took is the duration of each step; a retried step counts with all its tries.
	took   map[string]time.Duration
	undone []step
}

func newSequence(fail Failpoints, log *slog.Logger) *sequence {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &sequence{fail: fail, log: log, took: make(map[string]time.Duration)}
}

// run runs the steps in order. If one fails, it undoes all steps of this sequence, the last one
// first.
func (s *sequence) run(ctx context.Context, steps ...step) error {
	for _, each := range steps {
		if err := s.runStep(ctx, each); err != nil {
			s.undo()
			return err
		}
	}
	return nil
}

// runStep registers the step's undo, hits its failpoint and runs it.
func (s *sequence) runStep(ctx context.Context, each step) error {
	begin := time.Now()
	defer func() { s.took[each.name] += time.Since(begin) }()
	s.log.Debug("step", "name", each.name)
	if each.undo != nil {
		s.undone = append(s.undone, each)
	}
	if err := s.fail.Hit(ctx, each.name); err != nil {
		return err
	}
	// Do not begin a step for a caller that has cancelled.
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s: %w", each.name, err)
	}
	return each.do(ctx)
}

// undo undoes all steps.
func (s *sequence) undo() {
	steps := s.undone
	s.undone = nil
	for _, each := range slices.Backward(steps) {
		s.log.Debug("undo", "name", each.name)
		each.undo()
	}
}

// keep discards the undo functions: the steps stay done.
func (s *sequence) keep() { s.undone = nil }

// branch returns an empty sequence that is undone separately; join moves its steps into s.
func (s *sequence) branch() *sequence {
	return &sequence{fail: s.fail, log: s.log, took: s.took}
}

// join moves the undo functions of other to s, so that s undoes both.
func (s *sequence) join(other *sequence) {
	s.undone = append(s.undone, other.undone...)
	other.undone = nil
}

// timing records how long steps and their parallel parts took.
type timing struct {
	mu      sync.Mutex
	longest map[string]time.Duration
}

// timed wraps work so that its duration counts for part. Of several calls the longest counts.
func (t *timing) timed(part string, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		begin := time.Now()
		defer func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.longest[part] = max(t.longest[part], time.Since(begin))
		}()
		return do(ctx)
	}
}

// step returns a step whose duration counts, without what its failpoint takes.
func (t *timing) step(name string, do func(context.Context) error, undo func()) step {
	return step{name, t.timed(name, do), undo}
}

// reset forgets all durations, before a retry.
func (t *timing) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longest = make(map[string]time.Duration)
}
