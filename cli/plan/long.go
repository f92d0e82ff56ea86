package plan

import (
	"context"
	"errors"

	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
)

// bar shows the progress of a search for templates that takes long.
type bar struct{ shown *terminal.Bar }

// newBar returns a bar that counts the sizes of pipelines.
func newBar(to verb.Streams) *bar { return &bar{terminal.NewLateCounter(to.Err, "sizes")} }

// progress updates the bar.
func (b *bar) progress(done, all int) { b.shown.Step("templates", uint64(done), uint64(all)) }

func (b *bar) close() { b.shown.Clear() }

// interrupted returns what a verb says if a signal ended it, and any other error as it is.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted: there is no result")
	}
	return err
}

// make returns the plan that the flags ask for.
func (s *settings) make(ctx context.Context, to verb.Streams) (*pipeline.Plan, error) {
	p, spec, err := s.load()
	if err != nil {
		return nil, err
	}
	bar := newBar(to)
	defer bar.close()
	plan, err := instance.Make(ctx, p, spec, bar.progress)
	if err == nil && len(s.machines) > 0 {
		plan, err = instance.OnMachines(ctx, plan, pipeline.Machines(s.machines))
	}
	return plan, interrupted(err)
}
