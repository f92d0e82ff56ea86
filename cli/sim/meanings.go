package sim

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// meaning is what an order makes of a job's priority and of its user's weight; "" if nothing: then
// jobs with priorities are refused, and so is --weights.
type meaning struct {
	Priority string `json:"priority"`
	Weight   string `json:"weight"`
	GPUs     string `json:"gpus"` // that a job gets
}

// The GPUs that orders give.
const (
	asRequested = "as asked for"
	ofAType     = "as asked for, type chosen"
	anyNumber   = "number chosen"
)

// withinUser is the meaning of a priority under orders of users.
const withinUser = "highest of a user first"

var meanings = map[string]meaning{
	"fifo":     {GPUs: asRequested},
	"priority": {GPUs: asRequested, Priority: "highest first"},
	"sjf":      {GPUs: asRequested},
	"srtf":     {GPUs: asRequested},
	"srsf":     {GPUs: asRequested},
	"las":      {GPUs: asRequested},
	"las2d":    {GPUs: asRequested},
	"dlas":     {GPUs: asRequested},
	"dlas-gpu": {GPUs: asRequested},
	"gittins":  {GPUs: asRequested}, "gittins2d": {GPUs: asRequested},
	"themis": {GPUs: asRequested},
	"drf": {
		GPUs: asRequested, Priority: withinUser, Weight: "divides a user's dominant share",
	},
	"quota": {
		GPUs: asRequested, Priority: withinUser,
	},
	"gavel": {
		GPUs: ofAType, Priority: "each 1 doubles the weight", Weight: "factor of each job's fair share",
	},
	"optimus":   {GPUs: anyNumber},
	"pollux":    {GPUs: anyNumber},
	synthesizer: {GPUs: asRequested},
}

// knowing returns the orders that give priorities a meaning.
func knowing() (known []string) {
	for _, name := range orders() {
		if meanings[name].Priority != "" {
			known = append(known, name)
		}
	}
	return known
}

// refuseIgnored returns an error if the order ignores users' weights or jobs' priorities.
func (s *settings) refuseIgnored(jobs *packed.Jobs) error {
	if s.Weights != nil && meanings[s.Order].Weight == "" && !s.IgnoreWeights {
		return usage(fmt.Errorf(
			"order %s ignores --weights; leave it out of this comparison, or let it ignore them with --ignore-weights", s.Order,
		))
	}
	return s.refusePriorities(jobs)
}

// refusePriorities returns an error if jobs have different priorities and the order ignores them.
func (s *settings) refusePriorities(jobs *packed.Jobs) error {
	known := s.Profile == native && meanings[s.Order].Priority != ""
	if known || s.IgnorePriority || jobs.Len() == 0 {
		return nil
	}
	first := jobs.At(0)
	i := 0
	for i < jobs.Len() && jobs.At(i).Priority == first.Priority {
		i++
	}
	if i == jobs.Len() {
		return nil
	}
	other := jobs.At(i)
	under := "order " + s.Order
	if s.Profile != native {
		under += " of profile " + s.Profile
	}
	return usage(fmt.Errorf(
		"%s ignores the jobs' priority, and they differ (job %d: %d, job %d: %d); "+
			"take an order that reads it (%s), or let this one ignore it with --ignore-priority",
		under, first.ID, first.Priority, other.ID, other.Priority, names(knowing()),
	))
}

// policiesVerb is sim policies.
func policiesVerb(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
	json := flags.Bool("json", false, "print JSON")
	return func(_ context.Context, to verb.Streams, _ []string) error {
		if *json {
			return printJSON(to.Out, describeOrders())
		}
		out := tabwriter.NewWriter(to.Out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(out, "ORDER\tPREEMPTS\tPRIORITY\tWEIGHT\tGPUS") // Flush returns the error
		for _, o := range describeOrders() {
			fmt.Fprintf(
				out, "%s\t%s\t%s\t%s\t%s\n", o.Order, o.Preempts, orRefused(o.Priority), orRefused(o.Weight), o.GPUs,
			)
		}
		return out.Flush()
	}
}

// orRefused returns a meaning, or refused if there is none.
func orRefused(text string) string {
	return cmp.Or(text, "refused")
}

// orderView describes an order. Scripts read it: fields may be added, never renamed.
type orderView struct {
	Order    string `json:"order"`
	Preempts string `json:"preempts"`
	meaning
}

// describeOrders returns all orders.
func describeOrders() (all []orderView) {
	for _, name := range orders() {
		preempts := "no"
		switch s := (&settings{}); {
		case isElastic(name):
			preempts = "each round"
		case s.stopsJobs(name):
			preempts = "yes"
		case name == "priority":
			preempts = "if asked"
		}
		all = append(all, orderView{name, preempts, meanings[name]})
	}
	return all
}
