package plan

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/draw"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/internal/words"
)

// makeVerb defines the flags of plan make and returns what runs it.
func makeVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	s, out := &settings{}, &output{}
	s.flags(flags)
	s.placeFlags(flags)
	out.flags(flags, "the pipelines and their nodes")
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		plan, err := s.make(ctx, to)
		if err != nil {
			return err
		}
		if err := out.draw(func(to io.Writer) error { return draw.Nodes(to, plan) }); err != nil {
			return err
		}
		if out.json {
			return printPlanJSON(to, plan, nil)
		}
		return printPlan(to, plan)
	}
}

func printPlanJSON(to verb.Streams, plan *pipeline.Plan, recovery *pipeline.Recovery) error {
	text, err := plan.Encode(recovery)
	if err != nil {
		return err
	}
	_, err = to.Out.Write(text)
	return err
}

// printPlan prints a plan as text.
func printPlan(to verb.Streams, plan *pipeline.Plan) error {
	err := printRows(to, "PIPELINE\tNODES\tMICROBATCHES\tTIME (ms)\tLAYERS OF EACH NODE", func(row func(string, ...any)) {
		for i, each := range plan.Pipelines {
			t := plan.Template(each.Template)
			row(
				"%d\t%s\t%d\t%s\t%s",
				i,
				nodeList(each.Nodes),
				each.Microbatches,
				pipeline.Milliseconds(t.Line().At(each.Microbatches)),
				layersText(t),
			)
		}
	})
	if err != nil {
		return err
	}
	if len(plan.Spare) > 0 {
		fmt.Fprintf(to.Out, "spare: %s\n", nodeList(plan.Spare))
	}
	if layers := plan.OnTooFew(); len(plan.Machines) > 0 && len(layers) > 0 {
		fmt.Fprintf(to.Out, "layers on fewer machines than --faults %d takes: %s\n", plan.Spec.Faults, words.Numbers(layers))
	}
	_, err = fmt.Fprintf(
		to.Out,
		"an iteration takes %s ms, %s ms of them the all-reduce; the plan is %s\n",
		pipeline.Milliseconds(plan.IterationTime()),
		pipeline.Milliseconds(plan.Profile.AllReduce(len(plan.Pipelines))),
		plan.Hash(),
	)
	if err == nil && 0 < plan.AtLeast && plan.AtLeast < plan.IterationTime() {
		_, err = fmt.Fprintf(
			to.Out,
			"not all combinations were searched; none takes less than %s ms\n",
			pipeline.Milliseconds(plan.AtLeast),
		)
	}
	return err
}

// layersText formats the layers of each node of a template.
func layersText(t *pipeline.Template) string {
	var words []string
	for node := range t.Nodes {
		var runs []string
		for _, run := range t.NodeLayers(node) {
			runs = append(runs, cutsText([]int{run[0], run[1]}))
		}
		words = append(words, strings.Join(runs, "+"))
	}
	return strings.Join(words, " ")
}

// batchView is the JSON output of plan batch.
type batchView struct {
	Split   []int       `json:"split"`
	Times   []jsonMilli `json:"times_ms"`
	Slowest jsonMilli   `json:"slowest_ms"`
}

// jsonMilli is nanoseconds, encoded in JSON as milliseconds.
type jsonMilli int64

// MarshalJSON writes a decimal number.
func (m jsonMilli) MarshalJSON() ([]byte, error) { return []byte(pipeline.Milliseconds(int64(m))), nil }

// batchVerb defines the flags of plan batch and returns what runs it.
func batchVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	var slices, counts string
	microbatches, out := 0, &output{}
	flags.StringVar(&slices, "slices", "", "`MS,MS,...` per microbatch in each kind of pipeline")
	flags.StringVar(&counts, "counts", "", "`N,N,...` pipelines of each kind; default: one of each")
	flags.IntVar(&microbatches, "microbatches", 0, "`NB` microbatches to split")
	out.flags(flags, "")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		shares, err := readShares(slices, counts)
		if err != nil {
			return err
		}
		if microbatches < 1 || microbatches > pipeline.MaxMicrobatches {
			return &verb.UsageError{
				Text: fmt.Sprintf("--microbatches is %d; want 1 to %d", microbatches, pipeline.MaxMicrobatches),
			}
		}
		split, slowest, err := instance.Distribute(shares, microbatches)
		if err != nil {
			return err
		}
		view := batchView{Split: split, Slowest: jsonMilli(slowest)}
		for i, s := range shares {
			view.Times = append(view.Times, jsonMilli(s.Line.At(split[i])))
		}
		if out.json {
			return printJSON(to, view)
		}
		return view.print(to, shares)
	}
}

func (v *batchView) print(to verb.Streams, shares []instance.Share) error {
	if err := printRows(to, "PIPELINES\tMS A MICROBATCH\tMICROBATCHES EACH\tTIME (ms)", func(row func(string, ...any)) {
		for i, s := range shares {
			each, all := pipeline.Milliseconds(s.Line.Each), pipeline.Milliseconds(int64(v.Times[i]))
			row("%d\t%s\t%d\t%s", s.Count, each, v.Split[i], all)
		}
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to.Out, "the slowest takes %s ms\n", pipeline.Milliseconds(int64(v.Slowest)))
	return err
}

// readShares parses the times and counts of plan batch.
func readShares(slices, counts string) (shares []instance.Share, err error) {
	if slices == "" {
		return nil, &verb.UsageError{
			Text: "--slices is missing: the milliseconds per microbatch in each kind of pipeline",
		}
	}
	for i, text := range strings.Split(slices, ",") {
		took, err := pipeline.ParseMilliseconds(strings.TrimSpace(text))
		if err != nil || took <= 0 || took > 1<<40 {
			return nil, &verb.UsageError{
				Text: fmt.Sprintf("--slices: number %d is %q; want milliseconds above 0, up to 18 minutes", i+1, text),
			}
		}
		shares = append(shares, instance.Share{Line: pipeline.Line{Each: int64(took)}, Count: 1})
	}
	if counts == "" {
		return shares, nil
	}
	words := strings.Split(counts, ",")
	if len(words) != len(shares) {
		return nil, &verb.UsageError{Text: fmt.Sprintf("--counts has %d numbers, --slices %d", len(words), len(shares))}
	}
	for i, text := range words {
		if shares[i].Count, err = strconv.Atoi(strings.TrimSpace(text)); err != nil || shares[i].Count < 1 ||
			shares[i].Count > pipeline.MaxMicrobatches {
			return nil, &verb.UsageError{
				Text: fmt.Sprintf("--counts: number %d is %q; want a number of pipelines, at least 1", i+1, text),
			}
		}
	}
	return shares, nil
}
