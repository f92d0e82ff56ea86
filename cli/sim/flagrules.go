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

// rule says where flags decide nothing. All that is refused because nobody would look at it is a
// rule: what was said and has no effect is a slip, and a result that does not show what was asked
// for is taken for one that does.
type rule struct {
	flags    string // their names, with spaces between
	noEffect bool   // with all else that was said
	where    string // that is so
	why      string // and what would change it
}

// setFlags are the names of the flags that the command line has.
func setFlags(flags *flag.FlagSet) map[string]bool {
	said := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { said[f.Name] = true })
	return said
}

// checkUnused refuses the first flag that was said and decides nothing.
func checkUnused(said map[string]bool, rules ...rule) error {
	for _, r := range rules {
		for name := range strings.FieldsSeq(r.flags) {
			if r.noEffect && said[name] {
				return &verb.UsageError{Text: fmt.Sprintf("--%s decides nothing %s: %s", name, r.where, r.why)}
			}
		}
	}
	return nil
}

// flagContext are what the rules of a simulation are about: one scheduler, or a grid of them. A flag is
// needed by one of them at least.
type flagContext struct {
	*settings
	orders, placements []string
	random             bool // jobs are made up
}

// rules are those of flags that say how to simulate. A profile of another simulator comes first: it
// knows hardly any.
func (g *flagContext) rules() []rule {
	if g.Profile != native {
		return append(g.profileRules(), g.orderRules()...)
	}
	return slices.Concat(g.orderRules(), g.walkRules(), g.preemptionRules(), g.randomRules())
}

// profileRules are the flags that are for our own engine. What says no more than that there is none of
// something is nothing to refuse.
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
		{"cost cost-share tier models", true, where, why},
		{"job-mtbf retries node-mtbf node-repair node-events estimate-error", true, where, why},
		{"round", g.Profile == "tiresias", where, "it decides whenever something happens; --profile blox has rounds"},
		{"limits", g.Profile == "blox", where, "its queues have limits of their own; --profile tiresias takes some"},
		{"seed", !g.random, where, "nothing is random there"},
	}
}

// underOrders is where a rule holds that asks for another order.
func (g *flagContext) underOrders() string { return "under order " + strings.Join(g.orders, " and ") }

// noOrder reports whether something is true of no order.
func (g *flagContext) noOrder(is func(order string) bool) bool {
	return !slices.ContainsFunc(g.orders, is)
}

// onlyFor is a rule of flags that only some orders look at.
func (g *flagContext) onlyFor(flags string, orders ...string) rule {
	has := func(name string) bool { return slices.Contains(orders, name) }
	return rule{flags, g.noOrder(has), g.underOrders(), "it is for " + strings.Join(orders, " and ")}
}

// orderRules are the parameters that orders have.
func (g *flagContext) orderRules() []rule {
	return []rule{
		g.onlyFor("limits promote", "dlas", "dlas-gpu"),
		g.onlyFor("history", "gittins", "gittins2d"),
		g.onlyFor("lease", "themis"),
		g.onlyFor("weights", "drf"),
		g.onlyFor("quotas", "quota"),
		g.onlyFor("preemptive-priority", "priority"),
		g.onlyFor("choose-every", synthesizer),
	}
}

// walkRules are the settings of how a queue is gone through and of who makes room.
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
			"it is for orders that stop jobs for others, as las and srtf",
		},
		{
			"victims", strings.HasSuffix(g.Victims, "-if-worth") && g.Cost == "", "without --cost",
			"stops take no time there, and are always worth it; leave out -if-worth, or say what they cost",
		},
		{
			"backfill", g.Backfill != "none" && g.noOrder(ends), g.underOrders(),
			"it is for walks that end at the first job that does not fit, as fifo's or --walk strict: others go on with whoever fits",
		},
		{
			"walk age",
			g.noOrder(queues),
			g.underOrders(),
			"it is for orders with a queue; optimus, pollux and gavel give all GPUs out anew",
		},
		{
			"age", g.noOrder(others) && !g.losesGPUs(), g.underOrders(),
			"who has waited longest is first there anyway, unless jobs lose their GPUs, as by --job-mtbf, --node-mtbf and --node-events",
		},
	}
}

// preemptionRules are the settings of when jobs are stopped and what that takes.
func (g *flagContext) preemptionRules() []rule {
	stops := func(name string) bool { return isElastic(name) || g.stopsJobs(name) }
	stopping := "it is for orders that stop jobs, as las and srtf"
	return []rule{
		{"quantum cost-share", g.noOrder(stops), g.underOrders(), stopping},
		{
			"cost tier", g.noOrder(stops) && !g.losesGPUs(), g.underOrders(),
			stopping + ", and for jobs that lose their GPUs, as by --job-mtbf, --node-mtbf and --node-events",
		},
	}
}

// losesGPUs reports whether jobs may lose their GPUs though nobody takes them.
func (g *flagContext) losesGPUs() bool { return g.jobMTBF > 0 || g.nodeMTBF > 0 || g.NodeEvents != "" }

// randomRules are the settings of what nobody knows beforehand.
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
			"nobody looks at estimates; sjf, srtf, srsf, themis, optimus and synthesizer do, and --backfill and --victims tail-if-worth",
		},
		{"retries", g.jobMTBF == 0, "without --job-mtbf", "no job fails"},
		{
			"node-repair",
			g.nodeMTBF == 0,
			"without --node-mtbf",
			"no node fails; when those of --node-events are back, that file says",
		},
		{"seed", !random, "here", "nothing is random; --job-mtbf, --node-mtbf, --estimate-error and order pollux are"},
	}
}

// stopsJobs reports whether jobs make room for others under an order.
func (s *settings) stopsJobs(name string) bool {
	if name == synthesizer {
		return true
	}
	o, err := order.ByName(name, order.Parameters{Preemptive: s.PreemptivePriority, Quotas: shares{"any": 1}})
	preemptive, ok := o.(scheduler.Preemptive)
	return err == nil && ok && preemptive.Preempts()
}

// fills reports whether a walk under an order goes on behind a job that does not fit.
func (s *settings) fills(name string) bool {
	return s.Walk == "fill" || s.Walk == "" && (s.stopsJobs(name) || name == "drf")
}

// rules are those of flags that say which jobs are made up; kind is the flag that says how.
func (m *generatorFlags) rules(kind string) []rule {
	if !slices.Contains(generator.Names(), m.kind) {
		return nil // that is told first, with the names that there are
	}
	where := fmt.Sprintf("with --%s %s", kind, m.kind)
	tenants := m.params.Tenants
	if tenants == nil {
		tenants = generator.Tenants()
	}
	shared := slices.ContainsFunc(tenants, func(t generator.Tenant) bool { return !t.Own() })
	return []rule{
		{"tenants", m.kind != "tenants", where, fmt.Sprintf("it is for --%s tenants; other jobs are nobody's", kind)},
		{
			"lengths sizes", m.kind == "tenants" && !shared, where,
			"each of these tenants has jobs of his own kind; those that --tenants names otherwise, as a:50,b:30, have the trace's",
		},
	}
}

// rules are those of flags that say where results go.
func (o *output) rules() []rule {
	return []rule{
		{"no-pictures", o.dir == "", "without --out", "nothing is drawn there; leave it out, or say where results go"},
	}
}
