package plan

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/replay"
)

// replayFlags are the flags of plan replay.
type replayFlags struct {
	settings
	output
	throughput, trace string
	ready             time.Duration
	samples           int64
	costs             replay.Costs
	pipelineNodes     int
	ways              costsFlags
}

// replayVerb defines the flags of plan replay and returns what runs it.
func replayVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	r := &replayFlags{}
	flags.StringVar(&r.trace, "trace", "", "`FILE` with the failures: time_s,node,event")
	flags.StringVar(
		&r.throughput,
		"throughput",
		"",
		"`FILE` with measured throughputs: nodes,samples_per_s; default: plan with --profile",
	)
	r.ways.flags(flags, ", and for the start", " (with --profile)")
	flags.DurationVar(&r.ready, "ready", 45*time.Second, "`TIME` until the nodes are ready (with --throughput)")
	flags.Int64Var(
		&r.samples,
		"samples-per-step",
		0,
		"`SAMPLES` of a step; default with --profile: one for each microbatch",
	)
	r.settings.flags(flags)
	r.placeFlags(flags)
	flags.IntVar(&r.pipelineNodes, "pipeline-nodes", 0,
		"what other pipelines have computed of a step counts; a pipeline has `N` nodes (with --throughput)")
	flags.DurationVar(&r.costs.Backup, "backup", 0,
		"`TIME` that a pipeline computes until others have that, too, and it is not lost with it; 0: never")
	flags.DurationVar(&r.costs.Detect, "detect", time.Second, "`TIME` until a death is detected (with --profile)")
	flags.DurationVar(
		&r.costs.Checkpoint,
		"checkpoint",
		10*time.Minute,
		"`TIME` between checkpoints, 0 for none (with --profile)",
	)
	flags.DurationVar(&r.costs.Restart, "restart", time.Minute, "`TIME` to start from a checkpoint (with --profile)")
	r.output.flags(flags, "")
	return func(ctx context.Context, to verb.Streams, _ []string) error { return r.run(ctx, to) }
}

func (r *replayFlags) run(ctx context.Context, to verb.Streams) error {
	if r.trace == "" {
		return &verb.UsageError{Text: "--trace is missing; generate one with: pos_cli plan trace"}
	}
	if (r.throughput == "") == (r.profile == "") {
		return &verb.UsageError{
			Text: "name either --throughput (measured) or --profile (to plan with)",
		}
	}
	if r.ready < 0 || r.costs.Detect < 0 || r.costs.Backup < 0 || r.costs.Checkpoint < 0 || r.costs.Restart < 0 {
		return &verb.UsageError{Text: "a time is negative"}
	}
	events, err := readFile(r.trace, replay.ReadTrace)
	if err != nil {
		return err
	}
	if r.throughput != "" {
		return r.measured(to, events)
	}
	return r.planned(ctx, to, events)
}

// readFile reads a file with a reader of its format.
func readFile[T any](path string, read func(io.Reader) (T, error)) (value T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return value, err
	}
	defer f.Close()
	if value, err = read(f); err != nil {
		return value, pipeline.InFile(path, err)
	}
	return value, nil
}

// measuredView is the JSON output of a replay by throughput.
type measuredView struct {
	SamplesPerSecond float64 `json:"samples_per_s"`
	Steps            int     `json:"steps"`
	LostSteps        int     `json:"lost_steps"`
	Useful           seconds `json:"useful_s"`
	Lost             seconds `json:"lost_s"`
	Paused           seconds `json:"paused_s"`
	Idle             seconds `json:"idle_s"`
	Unfinished       seconds `json:"unfinished_s"`
	First            seconds `json:"first_step_s"`
	Last             seconds `json:"last_step_end_s"`
	End              seconds `json:"end_s"`
}

// seconds is a time, encoded in JSON as seconds.
type seconds time.Duration

// MarshalJSON writes a decimal number.
func (s seconds) MarshalJSON() ([]byte, error) {
	return []byte(pipeline.Seconds(time.Duration(s))), nil
}

// measured replays by throughput.
func (r *replayFlags) measured(to verb.Streams, events []replay.Event) error {
	if r.samples == 0 {
		return &verb.UsageError{Text: "--samples-per-step is missing"}
	}
	table, err := readFile(r.throughput, replay.ReadThroughput)
	if err != nil {
		return err
	}
	run := replay.Run{Throughput: table, Trace: events, Ready: r.ready, Pause: r.ways.pause, SamplesPerStep: r.samples, PipelineNodes: r.pipelineNodes, Backup: r.costs.Backup}
	report, err := run.Replay()
	if err != nil {
		return fmt.Errorf("%s: %w", r.trace, err)
	}
	if r.json {
		return printJSON(to, measuredView{
			report.SamplesPerSecond, report.Steps, report.LostSteps, seconds(report.Useful), seconds(report.Lost),
			seconds(report.Paused), seconds(report.Idle), seconds(report.Unfinished), seconds(report.First), seconds(report.Last), seconds(report.End),
		})
	}
	fmt.Fprintf(to.Out, "%.2f samples/s\n", report.SamplesPerSecond)
	lost := share{humanize.Count(report.LostSteps, "step", "steps") + " lost to changes of nodes", report.Lost}
	if r.pipelineNodes > 0 {
		lost.what = "work of pipelines that lost a node"
	}
	return r.printTimes(to, report.End-report.First, []share{
		{humanize.Count(report.Steps, "step", "steps"), report.Useful},
		lost,
		{"pauses after failures", report.Paused},
		{"idle, with too few nodes", report.Idle},
		{"the step that the end cut off", report.Unfinished},
	})
}

// share is a part of the time.
type share struct {
	what string
	took time.Duration
}

// printTimes prints a table of shares of the time.
func (r *replayFlags) printTimes(to verb.Streams, all time.Duration, shares []share) error {
	return printRows(to, "SECONDS\tSHARE\tSPENT ON", func(row func(string, ...any)) {
		for _, each := range shares {
			row("%s\t%.2f %%\t%s", pipeline.Seconds(each.took), 100*float64(each.took)/float64(max(all, 1)), each.what)
		}
	})
}

// plannedView is the JSON output of a replay by planning.
type plannedView struct {
	SamplesPerSecond float64 `json:"samples_per_s"`
	Steps            int     `json:"steps"`
	Replans          int     `json:"replans"`
	Restarts         int     `json:"restarts"`
	Bytes            int64   `json:"bytes"`
	Training         seconds `json:"training_s"`
	InFlight         seconds `json:"in_flight_s"`
	RolledBack       seconds `json:"rolled_back_s"`
	Detecting        seconds `json:"detecting_s"`
	Pausing          seconds `json:"pausing_s"`
	Copying          seconds `json:"copying_s"`
	Restarting       seconds `json:"restarting_s"`
	Stopped          seconds `json:"stopped_s"`
	End              seconds `json:"end_s"`
}

// planned replays by planning.
func (r *replayFlags) planned(ctx context.Context, to verb.Streams, events []replay.Event) error {
	plan, err := r.make(ctx, to)
	if err != nil {
		return err
	}
	if r.costs.Costs, err = r.ways.read(); err != nil {
		return err
	}
	out, err := replay.Planned{Plan: plan, Trace: events, Costs: r.costs}.Replay(ctx)
	if err != nil {
		return interrupted(fmt.Errorf("%s: %w", r.trace, err))
	}
	if r.samples == 0 {
		r.samples = int64(plan.Spec.Microbatches)
	}
	rate := float64(int64(out.Steps)*r.samples) / max(out.End.Seconds(), 1e-9)
	if r.json {
		s := &out.Spent
		return printJSON(to, plannedView{
			rate, out.Steps, out.Replans, out.Restarts, out.Bytes, seconds(s.Training), seconds(s.InFlight),
			seconds(s.RolledBack), seconds(s.Detecting), seconds(s.Pausing), seconds(s.Copying), seconds(s.Restarting),
			seconds(s.Stopped), seconds(out.End),
		})
	}
	fmt.Fprintf(
		to.Out,
		"%.2f samples/s, with %s, %s from checkpoints and %s copied\n",
		rate,
		humanize.Count(out.Replans, "re-plan", "re-plans"),
		humanize.Count(out.Restarts, "restart", "restarts"),
		humanize.Bytes(uint64(out.Bytes)),
	)
	return r.printTimes(to, out.End, []share{
		{humanize.Count(out.Steps, "iteration", "iterations"), out.Spent.Training},
		{"work of pipelines that lost a node", out.Spent.InFlight},
		{"iterations that were repeated", out.Spent.RolledBack},
		{"detecting deaths", out.Spent.Detecting},
		{"planning and new groups", out.Spent.Pausing},
		{"copying layers", out.Spent.Copying},
		{"restarts from checkpoints", out.Spent.Restarting},
		{"waiting for nodes", out.Spent.Stopped},
	})
}

// traceVerb defines the flags of plan trace and returns what runs it.
func traceVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	f := replay.Failures{}
	flags.IntVar(&f.Nodes, "nodes", 0, "`N` nodes")
	flags.DurationVar(&f.Between, "between", 0, "`TIME` between two failures of a node, on average")
	flags.DurationVar(&f.BackAfter, "back-after", 0, "`TIME` that a node is down, on average; 0: forever")
	flags.IntVar(&f.Together, "together", 1, "`K` nodes that go down and come up together")
	flags.DurationVar(&f.Length, "length", 24*time.Hour, "`TIME` that the trace covers")
	flags.Uint64Var(&f.Seed, "seed", 1, "`SEED` of the random numbers")
	out := flags.String("out", "", "write to `FILE` instead of standard output")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		if f.Nodes < 1 || f.Nodes >= maxNodes || f.Between < time.Second || f.BackAfter < 0 || f.Together < 1 ||
			f.Length <= 0 {
			return &verb.UsageError{
				Text: "a trace needs --nodes and --together of at least 1, --between of at least 1s, " +
					"--back-after of at least 0 and a positive --length",
			}
		}
		if err := f.Check(); err != nil {
			return err
		}
		if *out == "" {
			return replay.WriteTrace(to.Out, f.Generate())
		}
		return writeWhole(*out, func(to io.Writer) error { return replay.WriteTrace(to, f.Generate()) })
	}
}
