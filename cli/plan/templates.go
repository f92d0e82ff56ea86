package plan

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/draw"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/template"
)

// templatesView is the JSON output of plan templates. Scripts read it: fields may be added, never
// renamed.
type templatesView struct {
	Templates   []templateView `json:"templates"`
	ProfileHash pipeline.Hash  `json:"profile_hash"`
	// LeftOut are the sizes that need more stages than the model has layers, or more memory for
	// microbatches in flight.
	LeftOut []int `json:"left_out"`
}

type templateView struct {
	pipeline.TemplateFile
	// ReleasedTime is the time that Oobleck's released planner reports, with --compat oobleck.
	ReleasedTime json.Number `json:"released_t_ms,omitempty"`
}

// templatesVerb defines the flags of plan templates and returns what runs it.
func templatesVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	s, out, compat := &settings{}, &output{}, ""
	s.flags(flags)
	out.flags(flags, "the largest template's iteration, stages over time")
	flags.StringVar(&compat, "compat", "", "`PLANNER` to reproduce: oobleck has a recursive search, which is not exact")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		if compat != "" && compat != "oobleck" {
			return &verb.UsageError{Text: fmt.Sprintf("--compat %q: want oobleck", compat)}
		}
		plan, err := s.templates(ctx, to, compat)
		if err != nil {
			return err
		}
		if err := out.draw(func(to io.Writer) error {
			largest := plan.Template(plan.Largest())
			return draw.Iteration(to, plan.Profile, largest, largest.Microbatches)
		}); err != nil {
			return err
		}
		view := newTemplatesView(plan, compat)
		if out.json {
			return printJSON(to, view)
		}
		return view.print(to)
	}
}

// templates returns the templates of the exact search, or of Oobleck's.
func (s *settings) templates(ctx context.Context, to verb.Streams, compat string) (*pipeline.Plan, error) {
	p, spec, err := s.load()
	if err != nil {
		return nil, err
	}
	bar := newBar(to)
	plan, err := instance.Templates(ctx, p, spec, bar.progress)
	bar.close()
	if err = interrupted(err); err != nil || compat == "" {
		return plan, err
	}
	r := template.Recursive{Profile: p, GPUsPerNode: spec.GPUsPerNode}
	for i, t := range plan.Templates {
		if plan.Templates[i], err = r.Template(t.Nodes); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// newTemplatesView adds Oobleck's times if compat is set, and the sizes that need no template.
func newTemplatesView(plan *pipeline.Plan, compat string) *templatesView {
	v := &templatesView{ProfileHash: plan.Profile.Hash(), LeftOut: []int{}}
	for _, t := range plan.Templates {
		each := templateView{TemplateFile: t.File()}
		if compat != "" {
			each.ReleasedTime = milliseconds(template.ReleasedTime(t))
		}
		v.Templates = append(v.Templates, each)
	}
	for size := plan.Largest() + 1; size <= plan.Spec.Nodes-plan.Spec.Faults*plan.Smallest(); size++ {
		v.LeftOut = append(v.LeftOut, size)
	}
	return v
}

func (v *templatesView) print(to verb.Streams) error {
	err := printRows(to, "NODES\tSTAGES\tCUTS\tSTAGE TIMES (ms)\tT (ms)", func(row func(string, ...any)) {
		for _, t := range v.Templates {
			times := ""
			for i, s := range t.Stages {
				if i > 0 {
					times += " "
				}
				if times += s.Time.String(); s.GPUs > 1 {
					times += fmt.Sprintf("×%d", s.GPUs)
				}
			}
			row("%d\t%d\t%s\t%s\t%s", t.Nodes, len(t.Stages), cutsText(t.Cuts), times, t.Time)
		}
	})
	if n := len(v.LeftOut); err == nil && n > 0 {
		_, err = fmt.Fprintf(
			to.Err,
			"pos_cli: no templates for %d to %d nodes: they would need more stages than the model has layers, or more memory\n",
			v.LeftOut[0],
			v.LeftOut[n-1],
		)
	}
	return err
}

// cutsText formats cuts as ranges of layers: 0-3 4-5.
func cutsText(cuts []int) (text string) {
	for i := 0; i+1 < len(cuts); i++ {
		if i > 0 {
			text += " "
		}
		if text += fmt.Sprint(cuts[i]); cuts[i+1]-1 > cuts[i] {
			text += fmt.Sprintf("-%d", cuts[i+1]-1)
		}
	}
	return text
}
