package compose

import (
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// Names are the names of policies.
type Names struct {
	Order, Placement, Admission, Backfill, Victims string
}

// Error is returned for a name that is none. Part says of which policy: order, placement,
// admission, backfill or victims.
type Error struct {
	Part string
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// SetOrder sets the order.
func (n Names) SetOrder(p *scheduler.Policies, parameters order.Parameters) (err error) {
	p.Order, err = order.ByName(n.Order, parameters)
	return named("order", err)
}

// SetOthers sets all policies but the order. The victims are chosen by the costs that the policies
// have already.
func (n Names) SetOthers(p *scheduler.Policies, parameters place.Parameters) (err error) {
	if p.Place, err = place.ByName(n.Placement, parameters); err != nil {
		return named("placement", err)
	}
	if p.Admit, err = admit.ByName(n.Admission); err != nil {
		return named("admission", err)
	}
	if p.Backfill, err = backfill.ByName(n.Backfill); err != nil {
		return named("backfill", err)
	}
	p.Preempt, err = victims.ByName(n.Victims, p.Costs)
	return named("victims", err)
}

// named says which policy an error is about.
func named(part string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{part, err}
}
