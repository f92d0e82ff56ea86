package sim

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/cluster"
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
	asRequested = "as many as it asks for"
	ofAType     = asRequested + ", of a type that the order chooses"
	anyNumber   = "as many as the order chooses"
)

// withinUser is the meaning of a priority under orders of users.
const withinUser = "among jobs of one user, the highest first"

var meanings = map[string]meaning{
	"fifo":     {GPUs: asRequested},
	"priority": {GPUs: asRequested, Priority: "the highest first; with --preemptive-priority it preempts lower ones"},
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
		GPUs: asRequested, Priority: withinUser,
		Weight: "--weights: a user's dominant share is divided by it; of waiting users, the lowest result is first",
	},
	"quota": {
		GPUs: asRequested, Priority: withinUser + "; no job of the user is preempted for it",
		Weight: "",
	},
	"gavel": {
		GPUs: ofAType, Priority: "doubles the job's weight for each 1 (halves it below 0), at most ten times",
		Weight: "--weights: a job's throughput is divided by it in the fair share, so it is due that many times as much",
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

// refusePriorities returns an error if jobs have different priorities and the order ignores them.
func (s *settings) refusePriorities(jobs []cluster.Job) error {
	known := s.Profile == native && meanings[s.Order].Priority != ""
	if known || s.IgnorePriority || len(jobs) == 0 {
		return nil
	}
	i := slices.IndexFunc(jobs, func(j cluster.Job) bool { return j.Priority != jobs[0].Priority })
	if i < 0 {
		return nil
	}
	under := "order " + s.Order
	if s.Profile != native {
		under += " of profile " + s.Profile
	}
	return usage(fmt.Errorf(
		"%s ignores the jobs' priority, and they differ (job %d: %d, job %d: %d); "+
			"take an order that reads it (%s), or let this one ignore it with --ignore-priority",
		under, jobs[0].ID, jobs[0].Priority, jobs[i].ID, jobs[i].Priority, names(knowing()),
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
	text, _, _ = strings.Cut(text, ";")
	if text == "" {
		return "refused"
	}
	return text
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
