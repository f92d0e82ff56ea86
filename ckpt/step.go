package ckpt

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// step is one thing that is done, and how to take it back.
type step struct {
	// name is also the step's failpoint.
	name string
	do   func(context.Context) error
	// undo is called when the step has failed, or a later one. It must cope with a do that ended half
	// way or never began; nil: nothing to take back.
	undo func()
}

// sequence is a row of steps on its way.
type sequence struct {
	fail Failpoints
	log  *slog.Logger
	// took says how long each step took; a step that was tried again counts with all its tries.
	took map[string]time.Duration
	// progress is told when a step begins.
	progress func(Step)
	undone   []step
}

func newSequence(fail Failpoints, log *slog.Logger, progress func(Step)) *sequence {
	if progress == nil {
		progress = func(Step) {}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &sequence{fail: fail, log: log, took: make(map[string]time.Duration), progress: progress}
}

// run does the steps in order. When one fails, everything of this sequence is taken back, the last
// step first.
func (s *sequence) run(ctx context.Context, steps ...step) error {
	for _, each := range steps {
		if err := s.one(ctx, each); err != nil {
			s.undo()
			return err
		}
	}
	return nil
}

func (s *sequence) one(ctx context.Context, each step) error {
	begin := time.Now()
	defer func() { s.took[each.name] += time.Since(begin) }()
	s.log.Debug("step", "name", each.name)
	if each.undo != nil {
		s.undone = append(s.undone, each)
	}
	if err := s.fail.Hit(ctx, each.name); err != nil {
		return err
	}
	// Whoever gave up does not want what comes next.
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%s: %w", each.name, err)
	}
	return each.do(ctx)
}

// undo takes everything back.
func (s *sequence) undo() {
	steps := s.undone
	s.undone = nil
	for _, each := range slices.Backward(steps) {
		s.log.Debug("undo", "name", each.name)
		each.undo()
	}
}

// keep makes what has been done stay.
func (s *sequence) keep() { s.undone = nil }

// branch is a sequence that can be taken back alone; join makes its steps part of this one.
func (s *sequence) branch() *sequence {
	return &sequence{fail: s.fail, log: s.log, took: s.took, progress: s.progress}
}

func (s *sequence) join(other *sequence) {
	s.undone = append(s.undone, other.undone...)
	other.undone = nil
}
