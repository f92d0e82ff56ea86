package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// heeded is a flag that only some orders look at.
type heeded struct {
	set  bool
	flag string
	by   func(order string) bool
	who  string // they are
}

// unused refuses flags that would decide nothing: those that none of the orders looks at. Who compares orders may set what one of them wants.
func (s *settings) unused(orders []string) error {
	for _, each := range append(s.ofOrders(), s.ofWalks()...) {
		if each.set && !slices.ContainsFunc(orders, each.by) {
			return &verb.UsageError{Text: fmt.Sprintf("--%s decides nothing under order %s: it is for %s", each.flag, strings.Join(orders, " and "), each.who)}
		}
	}
	return nil
}

func only(names ...string) func(string) bool {
	return func(order string) bool { return slices.Contains(names, order) }
}

// ofOrders are the parameters that orders have.
func (s *settings) ofOrders() []heeded {
	return []heeded{
		{s.limits != nil, "limits", only("dlas", "dlas-gpu"), "dlas and dlas-gpu"},
		{s.Promote != 0, "promote", only("dlas", "dlas-gpu"), "dlas and dlas-gpu"},
		{s.History != "", "history", only("gittins", "gittins2d"), "gittins and gittins2d"},
		{s.lease != 0, "lease", only("themis"), "themis"},
		{s.Weights != nil, "weights", only("drf"), "drf"},
		{s.Quotas != nil, "quotas", only("quota"), "quota"},
		{s.PreemptivePriority, "preemptive-priority", only("priority"), "priority"},
		{s.chooseEvery != defaultChoice, "choose-every", only(synthesizer), synthesizer},
	}
}

// ofWalks are the settings of how a queue is gone through and of who makes room. Only our own engine has them.
func (s *settings) ofWalks() []heeded {
	if s.Profile != native {
		return nil
	}
	queues := func(name string) bool { return !isElastic(name) }
	ends := func(name string) bool { return queues(name) && !s.fills(name) }
	return []heeded{
		{slices.Contains(victims.Names(), s.Victims), "victims", s.stopsJobs, "orders that stop jobs for others, as las and srtf"},
		{s.Backfill != "" && s.Backfill != "none", "backfill", ends, "walks that end at the first job that does not fit, as fifo's or --walk strict: others go on with whoever fits"},
		{s.Walk != "", "walk", queues, "orders with a queue; optimus, pollux and gavel give all GPUs out anew"},
		{s.age != 0, "age", queues, "orders with a queue; optimus, pollux and gavel give all GPUs out anew"},
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
