package plan

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/draw"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/cluster/pipeline/ways"
)

// failFlags are the flags of plan fail.
type failFlags struct {
	output
	plan, profile      string
	dead, join, leaves nodesValue
	machines           machinesValue
	costs              costsFlags
	ways               []ways.Way
	faults             *int // nil: as the plan
}

// failVerb defines the flags of plan fail and returns what runs it.
func failVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	f := &failFlags{ways: ways.All}
	flags.StringVar(&f.plan, "plan", "", "`FILE` with the plan that runs, from plan make --json or plan fail --json")
	flags.StringVar(
		&f.profile,
		"profile",
		"",
		"`FILE` that the plan must have been made for; default: the profile in the plan",
	)
	flags.Var(&f.dead, "dead", "`NODES` that have died, such as 2,6 or 4-7")
	flags.Var(&f.join, "join", "`NODES` that have joined, with new numbers")
	flags.Var(&f.leaves, "drain", "`NODES` that will leave and can still be copied from")
	machinesFlag(flags, &f.machines, "; default: as before")
	flags.Func("faults", "`F` simultaneous node failures to survive from now on; default: as before", f.setFaults)
	flags.Func("way", "`WAY` to go on: "+strings.Join(ways.Names(), " or ")+"; default: the best", f.setWay)
	f.costs.flags(flags, "", "")
	f.flags(flags, "pipelines and nodes before and after")
	return func(_ context.Context, to verb.Streams, _ []string) error { return f.run(to) }
}

// setFaults parses the value of --faults.
func (f *failFlags) setFaults(text string) error {
	faults, err := strconv.Atoi(text)
	if err != nil || faults < 0 || faults >= pipeline.MaxNodes {
		return fmt.Errorf("wanted a number from 0 to %d", pipeline.MaxNodes-1)
	}
	f.faults = &faults
	return nil
}

// setWay parses the value of --way.
func (f *failFlags) setWay(text string) error {
	way, err := ways.Find(text)
	f.ways = []ways.Way{way}
	return err
}

func (f *failFlags) run(to verb.Streams) error {
	plan, err := f.load()
	if err != nil {
		return err
	}
	change := replan.Change{Dead: f.dead, Leaving: f.leaves, Joined: f.join, Machines: pipeline.Machines(f.machines)}
	costs, err := f.costs.read()
	if err != nil {
		return err
	}
	found, err := ways.Choose(f.ways, plan, change, costs)
	if err != nil {
		return err
	}
	r := found[0].Result
	if err := f.draw(func(to io.Writer) error { return draw.Change(to, plan, change, r) }); err != nil {
		return err
	}
	if f.json {
		return printPlanJSON(
			to,
			r.Plan,
			&pipeline.Recovery{
				Ways:      wayViews(found),
				Steps:     orEmpty(r.Steps),
				Transfers: orEmpty(r.Transfers),
				Lost:      orEmpty(r.Lost),
				Bytes:     r.Bytes,
			},
		)
	}
	if err := printRecovery(to, r); err != nil {
		return err
	}
	printWays(to, found, costs.Horizon)
	return nil
}

// orEmpty returns an empty list instead of nil, which JSON would encode as null.
func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func (f *failFlags) load() (*pipeline.Plan, error) {
	if f.plan == "" {
		return nil, &verb.UsageError{Text: "--plan is missing; make one with: pos_cli plan make ... --json"}
	}
	if len(f.dead)+len(f.join)+len(f.leaves) == 0 && f.faults == nil && f.machines == nil {
		return nil, &verb.UsageError{Text: "no change: name nodes with --dead, --join or --drain, or other --faults or --machines"}
	}
	text, err := os.ReadFile(f.plan)
	if err != nil {
		return nil, err
	}
	plan, err := pipeline.DecodePlan(text)
	if err != nil {
		return nil, pipeline.InFile(f.plan, err)
	}
	if f.faults != nil {
		plan.Spec.Faults = *f.faults
	}
	if f.profile == "" {
		return plan, nil
	}
	p, err := readProfile(f.profile)
	if err != nil {
		return nil, err
	}
	if p.Hash() != plan.Profile.Hash() {
		return nil, &pipeline.InputError{
			File: f.plan, Problem: fmt.Sprintf("was made for the profile %s, and the one given is %s", plan.Profile.Hash(),
				p.Hash()),
			Want: "the profile that the plan was made for",
		}
	}
	return plan, nil
}

// printRecovery prints a recovery as text.
func printRecovery(to verb.Streams, r *replan.Result) error {
	if err := printPlan(to, r.Plan); err != nil {
		return err
	}
	for _, step := range r.Steps {
		name := "a new pipeline"
		if step.Pipeline >= 0 {
			name = fmt.Sprintf("previous pipeline %d", step.Pipeline)
		}
		fmt.Fprintf(to.Out, "%s: %s, %d nodes before, %d after\n", name, step.What, step.Before, step.After)
	}
	if len(r.Transfers) > 0 {
		if err := printRows(to, "LAYER\tTO NODE\tBYTES\tFROM NODES", func(row func(string, ...any)) {
			for _, each := range r.Transfers {
				var bytes int64
				from := nodesValue{}
				for _, stripe := range each.Stripes {
					bytes += stripe.Bytes
					from = append(from, stripe.From)
				}
				row("%d\t%d\t%d\t%s", each.Layer, each.To, bytes, nodeList(from))
			}
		}); err != nil {
			return err
		}
	}
	for _, each := range r.Lost {
		fmt.Fprintf(
			to.Out,
			"layer %d is lost on all nodes: a checkpoint must supply its %s to node %s\n",
			each.Layer,
			humanize.Bytes(uint64(each.Bytes)),
			nodeList(each.To),
		)
	}
	_, err := fmt.Fprintf(to.Out, "copied between nodes: %s\n", humanize.Bytes(uint64(r.Bytes)))
	return err
}
