package sim

import (
	"cmp"
	"context"
	"flag"
	"time"

	"github.com/phos-gpu/phos/cli/memlimit"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/compat"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/sim"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// runVerb is sim run.
func runVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	s := &settings{}
	s.runFlags(flags)
	out := output{}
	out.flags(flags)
	flags.StringVar(
		&out.events,
		"events",
		"",
		"`FILE` for a log of every decision, compressed if it ends in .gz; - is standard output, and the summary then "+
			"goes to standard error",
	)
	return func(ctx context.Context, to verb.Streams, _ []string) error {
		g := flagContext{settings: s, orders: []string{s.Order}, placements: []string{s.Placement}}
		if err := g.check(setFlags(flags)); err != nil {
			return err
		}
		return out.run(ctx, to, s)
	}
}

// runFlags registers the flags of one simulation.
func (s *settings) runFlags(flags *flag.FlagSet) {
	s.inputFlags(flags)
	flags.StringVar(
		&s.Profile,
		"profile",
		native,
		"`SIMULATOR`: native (our engine), blox or tiresias (reproduced job by job)",
	)
	flags.StringVar(&s.Order, "order", "fifo", "`POLICY` that orders the jobs: "+names(orders()))
	s.policyFlags(flags)
	s.timeFlags(flags)
	s.faultFlags(flags)
}

// policyFlags registers the flags of the other policies.
func (s *settings) policyFlags(flags *flag.FlagSet) {
	flags.StringVar(
		&s.Placement,
		"placement",
		"",
		"`POLICY` that chooses GPUs: "+names(place.Names())+"; default: first-free",
	)
	flags.StringVar(
		&s.Admission,
		"admission",
		"all",
		"`POLICY` that admits jobs: all, load:X (until they ask for X times the GPUs), quota:F",
	)
	s.gridPolicyFlags(flags)
}

// gridPolicyFlags registers the flags of policies that all simulations of a grid have in common.
func (s *settings) gridPolicyFlags(flags *flag.FlagSet) {
	flags.StringVar(
		&s.Backfill,
		"backfill",
		"",
		"`POLICY` for overtaking: none, easy, conservative or conservative:N; default: none",
	)
	flags.StringVar(
		&s.Victims,
		"victims",
		"",
		"`POLICY` that chooses jobs to preempt: "+names(victims.Names())+"; default: tail",
	)
	flags.StringVar(
		&s.Walk,
		"walk",
		"",
		"`HOW` the queue is processed: strict ends at the first job that does not fit, fill continues; "+
			"default: fill if the order preempts, else strict",
	)
}

// run simulates, and writes and prints the result.
func (o *output) run(ctx context.Context, to verb.Streams, s *settings) error {
	in, err := s.load()
	if err != nil {
		return err
	}
	events, err := createEvents(o.events, to.Out, in.nodes, s)
	if err != nil {
		return err
	}
	if o.events == "-" {
		to.Out = to.Err
	}
	in.log, in.omitRuns = events.writer(), !o.pictures()
	bar := o.newBar(to, s.end(in.jobs))
	result, err := s.simulate(ctx, in, bar.progress("simulate"))
	bar.close()
	if err != nil {
		events.discard()
		return err
	}
	if err := events.close(); err != nil {
		return err
	}
	configuration, view := s.configuration(), s.view(in.tables)
	if view != nil {
		configuration.Description = view.Text
	}
	result.Summary.Configuration = configuration
	if err := o.deliver(result, s, view); err != nil {
		return err
	}
	if err := o.report(to, result, s, view); err != nil {
		return err
	}
	if ctx.Err() != nil && result.Summary.Partial {
		return o.interrupted()
	}
	return nil
}

// end returns when a simulation ends, if --until is before the last job's arrival; otherwise 0.
func (s *settings) end(jobs *packed.Jobs) time.Duration {
	for i := range jobs.Len() {
		if jobs.Submit(i) > s.until {
			return s.until
		}
	}
	return 0
}

// progress reports how many jobs have ended, and the virtual time.
type progress func(ended, total int, now time.Duration)

// simulate runs one simulation by its profile.
func (s *settings) simulate(ctx context.Context, in input, progress progress) (*sim.Result, error) {
	if err := s.refuseIgnored(in.jobs); err != nil {
		return nil, err
	}
	if s.Profile != native {
		return s.simulateCompat(ctx, in, progress)
	}
	s.defaults()
	policies, err := s.policies(in.jobs, in.tables)
	if err != nil {
		return nil, err
	}
	return sim.Play(ctx, s.limit(in.jobs), sim.Options{
		Nodes: in.nodes, Policies: policies, Track: s.track, Until: s.until,
		Progress: func(ended, total int, now time.Duration) {
			memlimit.Fit()
			progress(ended, total, now)
		},
		Events: in.log, OmitRuns: in.omitRuns,
		Faults: sim.Faults{
			Seed:       s.Seed,
			JobMTBF:    s.jobMTBF,
			NodeMTBF:   s.nodeMTBF,
			NodeRepair: s.nodeRepair,
			Nodes:      in.events,
		},
	})
}

// simulateCompat runs another simulator.
func (s *settings) simulateCompat(ctx context.Context, in input, progress progress) (*sim.Result, error) {
	result, err := compat.Run(ctx, s.Profile, in.jobs.Slice(), compat.Options{
		Nodes: in.nodes, Order: s.Order, Admission: s.Admission, Round: s.round, Limits: s.limits, Track: s.track,
		Progress: func(ended, total int) { progress(ended, total, 0) },
	})
	return result, usageOf(usageOf(err, compat.ErrUnknown), compat.ErrLimits)
}

// defaults sets defaults, so that summary.json contains them.
func (s *settings) defaults() {
	orDefault(&s.Placement, "first-free")
	orDefault(&s.Backfill, "none")
	orDefault(&s.Victims, "tail")
	if s.round == 0 && isElastic(s.Order) {
		s.round, s.promptStarts = elasticRound, s.Model != ownModel
	}
	if s.quantum == 0 {
		s.quantum = s.quantumFor()
	}
	s.Pack = s.Order == "optimus" && s.pack.or(s.packs())
}

// packs reports whether optimus packs by default: where jobs on more nodes are slower, packing
// wins, and elsewhere it only moves jobs.
func (s *settings) packs() bool {
	return s.Model == placedModel || s.Model == measuredModel || s.Model == ownModel
}

// quantumFor returns the default quantum: without one, jobs of equal service would preempt each
// other endlessly, and jobs that load for longer than a round or a lease would lose their GPUs
// before they work.
func (s *settings) quantumFor() time.Duration {
	switch {
	case s.Order == "themis":
		return cmp.Or(s.lease, order.Lease)
	case isElastic(s.Order):
		return s.round
	case ranksGrow(s.Order) && s.round == 0:
		return defaultQuantum
	}
	return 0
}

// orDefault sets an empty string to value.
func orDefault(to *string, value string) {
	if *to == "" {
		*to = value
	}
}
