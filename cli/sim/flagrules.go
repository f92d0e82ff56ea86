package sim

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/victims"
	"github.com/phos-gpu/phos/scheduler/workload/generator"
)

// rule describes flags that have no effect in some setting. A flag without effect is probably a
// mistake: the user would take the result for one with that flag. So it is an error.
type rule struct {
	flags    string // their names, separated by spaces
	noEffect bool   // they have no effect, given all other flags
	where    string // the setting in which that is so
	why      string // and what would change it
}

// setFlags returns the names of the flags that the command line has.
func setFlags(flags *flag.FlagSet) map[string]bool {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

// checkUnused returns an error for the first flag that is set and has no effect.
func checkUnused(given map[string]bool, rules ...rule) error {
	for _, r := range rules {
		for name := range strings.FieldsSeq(r.flags) {
			if r.noEffect && given[name] {
				return &verb.UsageError{Text: fmt.Sprintf("--%s has no effect %s: %s", name, r.where, r.why)}
			}
		}
	}
	return nil
}

// flagContext is what the rules of a simulation depend on: one scheduler, or a grid of them. A flag
// must have an effect on at least one of them.
type flagContext struct {
	*settings
	orders, placements []string
	random             bool // jobs are generated
}

// rules returns the rules of the simulation flags. A profile of another simulator comes first: it
// supports few of them.
func (g *flagContext) rules() []rule {
	if g.Profile != native {
		return append(g.profileRules(), g.orderRules()...)
	}
	return slices.Concat(g.orderRules(), g.walkRules(), g.preemptionRules(), g.randomRules(), g.modelRules())
}

// profileRules are the flags that only our own engine supports. A value that turns a feature off is
// allowed.
func (g *flagContext) profileRules() []rule {
	where, why := "under profile "+g.Profile, "it is for profile "+native
	placed := slices.ContainsFunc(g.placements, func(name string) bool { return name != "" && name != "first-free" })
	return []rule{
		{"backfill", g.Backfill != "none", where, why},
		{"placement", placed, where, why},
		{
			"victims walk quantum age lease until choose-every promote quotas caps history weights preemptive-priority",
			true,
			where,
			why,
		},
		{
			"cost cost-share tier models model reference type-speeds no-grow restart-cost contention pack ignore-weights",
			true, where, why,
		},
		{"events", true, where, why},
		{"job-mtbf retries node-mtbf node-repair node-events estimate-error", true, where, why},
		{"round", g.Profile == "tiresias", where, "it decides at every event; --profile blox has rounds"},
		{"limits", g.Profile == "blox", where, "its queues have fixed limits; --profile tiresias takes limits"},
		{"seed", !g.random, where, "nothing is random there"},
	}
}

// underOrders names the orders of the simulation, for errors.
func (g *flagContext) underOrders() string { return "under order " + strings.Join(g.orders, " and ") }

// noOrder reports whether a condition holds for none of the orders.
func (g *flagContext) noOrder(is func(order string) bool) bool {
	return !slices.ContainsFunc(g.orders, is)
}

// onlyFor is a rule of flags that only some orders read.
func (g *flagContext) onlyFor(flags string, orders ...string) rule {
	has := func(name string) bool { return slices.Contains(orders, name) }
	return rule{flags, g.noOrder(has), g.underOrders(), "it is for " + strings.Join(orders, " and ")}
}

// orderRules are the parameters of orders.
func (g *flagContext) orderRules() []rule {
	return []rule{
		g.onlyFor("limits promote", "dlas", "dlas-gpu"),
		g.onlyFor("history", "gittins", "gittins2d"),
		g.onlyFor("lease", "themis"),
		g.onlyFor("contention", "themis"),
		{
			"ignore-priority", g.noOrder(func(name string) bool { return meanings[name].Priority == "" }), g.underOrders(),
			"it is for orders that know no priorities: pos_cli sim policies lists them",
		},
		g.onlyFor("pack", "optimus"),
		{
			"ignore-weights", g.Weights == nil || g.noOrder(func(name string) bool { return meanings[name].Weight == "" }),
			"here", "it is for --weights in a comparison of orders that know them with others",
		},
		g.onlyFor("weights", "drf", "gavel"),
		g.onlyFor("quotas", "quota"),
		g.onlyFor("preemptive-priority", "priority"),
		g.onlyFor("choose-every", synthesizer),
	}
}

// walkRules are the settings of the queue's walk and of preemption.
func (g *flagContext) walkRules() []rule {
	queues := func(name string) bool { return !isElastic(name) }
	ends := func(name string) bool { return queues(name) && !g.fills(name) }
	others := func(name string) bool { return name != "fifo" }
	known := slices.Contains(victims.Names(), g.Victims)
	return []rule{
		{
			"victims",
			known && g.noOrder(g.stopsJobs),
			g.underOrders(),
			"it is for orders that preempt, such as las and srtf",
		},
		{
			"victims", strings.HasSuffix(g.Victims, "-if-worth") && g.Cost == "", "without --cost",
			"preemption takes no time there, and is always worth it; leave out -if-worth, or set the costs",
		},
		{
			"backfill", g.Backfill != "none" && g.noOrder(ends), g.underOrders(),
			"it is for walks that end at the first job that does not fit, such as fifo's or --walk strict: " +
				"other walks start every job that fits",
		},
		{
			"walk age",
			g.noOrder(queues),
			g.underOrders(),
			"it is for orders with a queue; optimus, pollux and gavel allocate all GPUs again",
		},
		{
			"age", g.noOrder(others) && !g.losesGPUs(), g.underOrders(),
			"the job that has waited longest is first anyway, unless jobs lose their GPUs, " +
				"as with --job-mtbf, --node-mtbf and --node-events",
		},
	}
}

// preemptionRules are the settings of preemption and its costs.
func (g *flagContext) preemptionRules() []rule {
	stops := func(name string) bool { return isElastic(name) || g.stopsJobs(name) }
	stopping := "it is for orders that preempt, such as las and srtf"
	return []rule{
		{"quantum cost-share", g.noOrder(stops), g.underOrders(), stopping},
		{
			"cost tier restart-cost", g.noOrder(stops) && !g.losesGPUs(), g.underOrders(),
			stopping + ", and for jobs that lose their GPUs, as with --job-mtbf, --node-mtbf and --node-events",
		},
	}
}

// losesGPUs reports whether jobs may lose their GPUs without preemption.
func (g *flagContext) losesGPUs() bool { return g.jobMTBF > 0 || g.nodeMTBF > 0 || g.NodeEvents != "" }

// randomRules are the settings of estimates and of random choices.
func (g *flagContext) randomRules() []rule {
	guesses := func(name string) bool {
		return slices.Contains([]string{"sjf", "srtf", "srsf", "themis", "optimus", synthesizer}, name)
	}
	reads := g.Backfill != "" && g.Backfill != "none" || strings.HasSuffix(g.Victims, "-if-worth") || !g.noOrder(guesses)
	pollux := func(name string) bool { return name == "pollux" }
	random := g.random || g.EstimateError > 0 || g.jobMTBF > 0 || g.nodeMTBF > 0 || !g.noOrder(pollux)
	return []rule{
		{
			"estimate-error", !reads, g.underOrders(),
			"no policy reads estimates; sjf, srtf, srsf, themis, optimus and synthesizer do, " +
				"and --backfill and --victims tail-if-worth",
		},
		{"retries", g.jobMTBF == 0, "without --job-mtbf", "no job fails"},
		{
			"node-repair",
			g.nodeMTBF == 0,
			"without --node-mtbf",
			"no node fails at random; the file of --node-events also says when its nodes are back",
		},
		{"seed", !random, "here", "nothing is random; --job-mtbf, --node-mtbf, --estimate-error and order pollux are"},
	}
}

// modelRules are the settings of the model.
func (g *flagContext) modelRules() []rule {
	typed := "under --model " + g.Model
	return []rule{
		{
			"reference type-speeds", g.Model == ownModel || g.Model == linearModel, typed,
			"types of GPU have speeds under --model common, placed and measured",
		},
		{"models", g.Model == linearModel, typed, "speed is proportional to the number of GPUs there"},
		{
			"no-grow", g.noOrder(func(name string) bool { return name == "optimus" || name == "pollux" }), g.underOrders(),
			"it is for optimus and pollux: no other order gives jobs more GPUs than they ask for",
		},
	}
}

// stopsJobs reports whether an order preempts jobs.
func (s *settings) stopsJobs(name string) bool {
	if name == synthesizer {
		return true
	}
	o, err := order.ByName(name, order.Parameters{Preemptive: s.PreemptivePriority, Quotas: shares{"any": 1}})
	preemptive, ok := o.(scheduler.Preemptive)
	return err == nil && ok && preemptive.Preempts()
}

// fills reports whether a walk under an order continues behind a job that does not fit.
func (s *settings) fills(name string) bool {
	return s.Walk == "fill" || s.Walk == "" && (s.stopsJobs(name) || name == "drf")
}

// rules returns the rules of generator flags; kind is the flag with the generator's name.
func (m *generatorFlags) rules(kind string) []rule {
	if !slices.Contains(generator.Names(), m.kind) {
		return nil // reported elsewhere, with the available names
	}
	where := fmt.Sprintf("with --%s %s", kind, m.kind)
	tenants := m.params.Tenants
	if tenants == nil {
		tenants = generator.Tenants()
	}
	shared := slices.ContainsFunc(tenants, func(t generator.Tenant) bool { return !t.Own() })
	return []rule{
		{"tenants", m.kind != "tenants", where, fmt.Sprintf("it is for --%s tenants; other jobs have no user", kind)},
		{
			"lengths sizes", m.kind == "tenants" && !shared, where,
			"each of these tenants has jobs of its own kind; other names in --tenants, such as a:50,b:30, " +
				"have the lengths and sizes of the trace",
		},
	}
}
