package order

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

var (
	// ErrUnknown is returned for the name of an unknown order.
	ErrUnknown = errors.New("unknown order")
	// ErrParameter is returned for an invalid parameter.
	ErrParameter = errors.New("bad parameter of an order")
)

// Parameters of the orders. Each order reads its own; the zero value suffices for all but quota.
type Parameters struct {
	// Limits separate the queues of dlas (running time) and dlas-gpu (GPU-time), ascending; nil means
	// Tiresias's 3250 s and 7200 s.
	Limits []time.Duration
	// Promote is Tiresias's PROMOTEKNOB, for dlas and dlas-gpu; 0 means never.
	Promote float64
	// Lengths are the distribution that gittins (running time) and gittins2d (GPU-time) assume; nil
	// means typical ones.
	Lengths []time.Duration
	// Lease is how long themis allocates GPUs for; 0 means Lease.
	Lease time.Duration
	// Contention is how many jobs share the cluster on average, for themis.
	Contention float64
	// Weights are users' weights for drf. (drf and quota order the jobs of one user by priority.)
	Weights map[string]float64
	// Quotas are the GPUs that users and organisations own, for quota.
	Quotas map[string]float64
	// Preemptive lets priority preempt jobs.
	Preemptive bool
	// Aging bounds the waiting time under any order; 0 means no bound.
	Aging time.Duration
}

// Lease is how long themis allocates GPUs for by default: the 20 minutes of its paper.
const Lease = 20 * time.Minute

var orders = map[string]func(Parameters) scheduler.Orderer{
	"fifo":      func(Parameters) scheduler.Orderer { return FIFO{} },
	"priority":  func(p Parameters) scheduler.Orderer { return Priority{p.Preemptive} },
	"sjf":       func(Parameters) scheduler.Orderer { return SJF{} },
	"srtf":      func(Parameters) scheduler.Orderer { return SRTF{} },
	"srsf":      func(Parameters) scheduler.Orderer { return SRSF{} },
	"las":       func(Parameters) scheduler.Orderer { return LAS{} },
	"las2d":     func(Parameters) scheduler.Orderer { return LAS2D{} },
	"dlas":      func(p Parameters) scheduler.Orderer { return DLAS{Limits: p.Limits, Promote: p.Promote} },
	"dlas-gpu":  func(p Parameters) scheduler.Orderer { return DLAS{Limits: p.Limits, Promote: p.Promote, TwoD: true} },
	"gittins":   func(p Parameters) scheduler.Orderer { return NewGittins(p.Lengths, false) },
	"gittins2d": func(p Parameters) scheduler.Orderer { return NewGittins(p.Lengths, true) },
	"themis":    func(p Parameters) scheduler.Orderer { return Themis{p.Lease, p.Contention} },
	"drf":       func(p Parameters) scheduler.Orderer { return DRF{Weights: p.Weights, Within: Priority{}} },
	"quota":     func(p Parameters) scheduler.Orderer { return Quota{GPUs: p.Quotas, Within: Priority{}} },
}

// Names returns the names of all orders.
func Names() []string { return slices.Sorted(maps.Keys(orders)) }

// ByName returns an order by its name.
func ByName(name string, p Parameters) (scheduler.Orderer, error) {
	build := orders[name]
	if build == nil {
		return nil, fmt.Errorf("%w %q; want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if p.Limits == nil {
		p.Limits = []time.Duration{3250 * time.Second, 7200 * time.Second}
	}
	if p.Lease == 0 {
		p.Lease = Lease
	}
	if err := p.check(name); err != nil {
		return nil, err
	}
	if p.Aging > 0 {
		return Aging(build(p), p.Aging)
	}
	return build(p), nil
}

// check validates the parameters that the order reads.
func (p *Parameters) check(name string) error {
	wrong := func(what string, value any, want string) error {
		return fmt.Errorf("%w: %s: %s %v, expected %s", ErrParameter, name, what, value, want)
	}
	for i, limit := range p.Limits {
		if limit <= 0 || i > 0 && limit <= p.Limits[i-1] {
			return wrong("limits", p.Limits, "positive ones that ascend")
		}
	}
	for _, length := range p.Lengths {
		if length <= 0 {
			return wrong("length", length, "more than 0")
		}
	}
	for _, shares := range []map[string]float64{p.Weights, p.Quotas} {
		for _, user := range slices.Sorted(maps.Keys(shares)) {
			if share := shares[user]; !(share > 0) || share > 1e9 {
				return wrong("share of "+user, share, "more than 0")
			}
		}
	}
	switch {
	case !(p.Promote >= 0) || p.Promote > 1e6:
		return wrong("promotion", p.Promote, "0 or more")
	case !(p.Contention >= 0):
		return wrong("contention", p.Contention, "0 or more")
	case p.Lease < 0:
		return wrong("lease", p.Lease, "more than 0")
	case p.Aging < 0:
		return wrong("aging", p.Aging, "more than 0")
	case name == "quota" && len(p.Quotas) == 0:
		return wrong("quotas", "are missing", "the GPUs of each user or organisation")
	}
	return nil
}
