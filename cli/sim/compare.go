package sim

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// grid is a set of simulations.
type grid struct {
	base                           settings
	orders, placements, admissions []string
	loads                          []float64
	workers                        int
	generate                       generatorFlags
	cells                          []cell
	model                          *modelView // nil under another simulator's profile
}

// cell is one simulation.
type cell struct {
	settings settings
	load     float64 // 0: as the trace is
	input    input
	result   *sim.Result // nil: never begun
	err      error
}

func compareVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	g := &grid{}
	s := &g.base
	s.inputFlags(flags)
	flags.StringVar(&s.Profile, "profile", native, "`SIMULATOR`: native, blox or tiresias")
	list(flags, &g.orders, "order", "fifo,srtf,las", "`POLICIES` out of "+names(orders()))
	list(flags, &g.placements, "placement", "", "`POLICIES` out of "+names(place.Names())+"; default: first-free")
	list(flags, &g.admissions, "admission", "all", "`POLICIES` out of all, load:X, quota:F")
	flags.Func(
		"load",
		"`LOADS` of the cluster, 1 being all of it, such as 0.6,0.8,1.0; default: the trace's own",
		g.parseLoads,
	)
	s.gridPolicyFlags(flags)
	s.timeFlags(flags)
	s.faultFlags(flags)
	flags.StringVar(
		&g.generate.kind,
		"generate",
		"poisson",
		"without --jobs: `KIND` of generated jobs: "+names(generator.Names()),
	)
	g.generate.flags(flags)
	flags.IntVar(&g.workers, "workers", 0, "simulate `N` at a time; default: the number of processors")
	out := &output{}
	out.flags(flags)
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		if err := g.check(setFlags(flags)); err != nil {
			return err
		}
		return out.compare(ctx, to, g)
	}
}

// check returns an error for settings that are invalid for any jobs.
func (g *grid) check(given map[string]bool) error {
	generated := g.base.Jobs == ""
	all := flagContext{settings: &g.base, orders: g.orders, placements: g.placements, random: generated}
	if err := all.check(given); err != nil {
		return err
	}
	if g.workers < 0 {
		return &verb.UsageError{Text: "--workers takes 1 or more"}
	}
	rules := []rule{
		{
			"generate count jobs-per-hour lengths sizes types model-mix tenants",
			!generated,
			"with --jobs",
			"the jobs come from the file; without it, they are generated",
		},
		{
			"format beside processors-per-gpu", generated, "without --jobs",
			"it describes a file of jobs, and these are generated",
		},
	}
	if generated {
		rules = append(rules, g.generate.rules("generate")...)
	}
	return checkUnused(given, rules...)
}

// list registers a flag with a list of names.
func list(flags *flag.FlagSet, to *[]string, name, value, usage string) {
	set := func(text string) error {
		*to = strings.Split(text, ",")
		if slices.Contains(*to, "") {
			return fmt.Errorf("an empty name in %q", text)
		}
		for i, name := range *to {
			if slices.Contains((*to)[:i], name) {
				return fmt.Errorf("%s twice in %q", name, text)
			}
		}
		return nil
	}
	*to = []string{""}
	if value != "" {
		_ = set(value)
		usage += "; default: " + value
	}
	flags.Func(name, usage, set)
}

func (g *grid) parseLoads(text string) error {
	g.loads = nil
	for each := range strings.SplitSeq(text, ",") {
		load, err := strconv.ParseFloat(each, 64)
		if err != nil || !(load > 0) || load > 1000 {
			return fmt.Errorf("%q is not a load above 0", each)
		}
		if slices.Contains(g.loads, load) {
			return fmt.Errorf("load %v twice in %q", load, text)
		}
		g.loads = append(g.loads, load)
	}
	return nil
}

// compare simulates the grid, and writes and prints the results.
func (o *output) compare(ctx context.Context, to verb.Streams, g *grid) error {
	if err := g.prepare(); err != nil {
		return err
	}
	for i := range g.cells {
		g.cells[i].input.omitRuns = !o.pictures()
	}
	bar := o.newBar(to, 0)
	err := g.run(ctx, bar.progress(humanize.Count(len(g.cells), "simulation", "simulations")))
	bar.close()
	if err != nil {
		return err
	}
	table := g.table()
	if o.dir != "" {
		err := sim.Deliver(o.dir, func(staging string) error { return g.write(staging, table, o.noPictures) })
		if err != nil {
			return err
		}
	}
	if o.json {
		err = printJSON(to.Out, table)
	} else {
		err = table.show(to.Out, o.dir)
	}
	if err == nil && ctx.Err() != nil && table.Partial {
		return o.interrupted()
	}
	return err
}

// prepare makes the cells and validates all of them, before any is simulated.
func (g *grid) prepare() error {
	loads := g.loads
	if loads == nil {
		loads = []float64{0}
	}
	inputs, err := g.inputs(loads)
	if err != nil {
		return err
	}
	g.model = g.base.view(inputs[0].tables)
	for l, load := range loads {
		for _, order := range g.orders {
			for _, placement := range g.placements {
				for _, admission := range g.admissions {
					c := cell{settings: g.base, load: load, input: inputs[l]}
					c.settings.Order, c.settings.Placement, c.settings.Admission = order, placement, admission
					if err := c.try(); err != nil {
						return err
					}
					g.cells = append(g.cells, c)
				}
			}
		}
	}
	return nil
}

// try makes the cell's policies, to find errors in their names.
func (c *cell) try() error {
	if err := c.settings.refuseIgnored(c.input.jobs); err != nil || c.settings.Profile != native {
		return err
	}
	c.settings.defaults()
	_, err := c.settings.policies(c.input.jobs, c.input.tables)
	return err
}

// inputs returns the jobs at each load: a trace's, closer together or farther apart, or generated
// ones.
func (g *grid) inputs(loads []float64) (all []input, err error) {
	if g.base.Jobs != "" {
		in, err := g.base.load()
		if err != nil {
			return nil, err
		}
		for _, load := range loads {
			each := in
			if load > 0 {
				each.jobs, err = stretch(in, load)
			}
			if err != nil {
				return nil, err
			}
			all = append(all, each)
		}
		return all, nil
	}
	nodes, err := g.base.cluster()
	if err != nil {
		return nil, err
	}
	if nodes == nil || loads[0] == 0 && g.generate.params.JobsPerHour == 0 {
		return nil, &verb.UsageError{
			Text: "name the jobs with --jobs FILE, or generate some: " +
				"--generate KIND --load 0.6,0.8,1.0 --nodes N --gpus-per-node G",
		}
	}
	g.base.Jobs = "made up: " + g.generate.kind
	for _, load := range loads {
		trace, err := g.generate.generate(g.base.Seed, gpusOf(nodes), load)
		if err != nil {
			return nil, err
		}
		in := input{jobs: trace.Jobs, nodes: nodes}
		if err := g.base.complete(&in); err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	return all, nil
}

// gpusOf returns the number of GPUs of some nodes.
func gpusOf(nodes []cluster.Node) (gpus int) {
	for i := range nodes {
		gpus += nodes[i].GPUs
	}
	return gpus
}

// offeredLoad returns how much of the cluster a trace needs while jobs arrive.
func offeredLoad(in input) float64 {
	need, first, last := 0.0, in.jobs.Submit(0), in.jobs.Submit(0)
	for _, j := range in.jobs.All() {
		need += j.Length.Seconds() * float64(j.GPUs) * float64(max(1, j.Share)) / cluster.WholeGPU
		first, last = min(first, j.Submit), max(last, j.Submit)
	}
	if last == first {
		return 0
	}
	return need / (last - first).Seconds() / float64(gpusOf(in.nodes))
}

// stretch returns the jobs of a trace with scaled times between them.
func stretch(in input, load float64) (*packed.Jobs, error) {
	is := offeredLoad(in)
	if is == 0 {
		return nil, fmt.Errorf("--load: all jobs arrive at once, so there are no times between them to stretch")
	}
	first, last := in.jobs.Submit(0), in.jobs.Submit(0)
	for i := range in.jobs.Len() {
		first, last = min(first, in.jobs.Submit(i)), max(last, in.jobs.Submit(i))
	}
	if (last-first).Seconds()*(is/load) > sim.Horizon.Seconds() {
		return nil, fmt.Errorf("--load %v: the jobs of the trace would be too far apart: %w", load, sim.ErrHorizon)
	}
	return in.jobs.Map(func(_ int, j *cluster.Job) { j.Submit = first + scaled(j.Submit-first, is/load) }), nil
}

// run simulates the cells, several at a time. Each has its own result, so the order does not
// matter.
func (g *grid) run(ctx context.Context, progress progress) error {
	workers := g.workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var next, done atomic.Int64
	var total int
	for i := range g.cells {
		total += g.cells[i].input.jobs.Len()
	}
	var wg sync.WaitGroup
	for range min(workers, len(g.cells)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(g.cells) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				c, before := &g.cells[i], 0
				c.result, c.err = c.settings.simulate(ctx, c.input, func(ended, _ int, now time.Duration) {
					sum := done.Add(int64(ended - before))
					before = ended
					progress(int(sum), total, now)
				})
				if c.err != nil {
					stop()
				}
			}
		})
	}
	wg.Wait()
	for i := range g.cells {
		if g.cells[i].err != nil {
			return fmt.Errorf("%s: %w", g.name(&g.cells[i]), g.cells[i].err)
		}
	}
	return nil
}

// name identifies a cell by its order and the other policies that differ within the grid. It is
// usable as a file name.
func (g *grid) name(c *cell) string {
	parts := []string{c.settings.Order}
	if len(g.placements) > 1 {
		parts = append(parts, c.settings.Placement)
	}
	if len(g.admissions) > 1 {
		parts = append(parts, c.settings.Admission)
	}
	if c.load > 0 && len(g.loads) > 1 {
		parts = append(parts, strconv.FormatFloat(c.load, 'f', -1, 64))
	}
	return strings.ReplaceAll(
		strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "_"),
		":",
		"-",
	)
}
