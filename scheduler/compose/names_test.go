package compose

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
)

// usual are names that there are.
var usual = Names{Order: "priority", Placement: "best-fit", Admission: "all", Backfill: "easy", Victims: "tail"}

// set makes all policies.
func (n Names) set() (p scheduler.Policies, err error) {
	if err = n.SetOrder(&p, order.Parameters{}); err == nil {
		err = n.SetOthers(&p, place.Parameters{})
	}
	return p, err
}

// TestSet: the policies make an engine.
func TestSet(t *testing.T) {
	p, err := usual.set()
	if err != nil {
		t.Fatal(err)
	}
	if p.Order == nil || p.Place == nil || p.Admit == nil || p.Backfill == nil || p.Preempt == nil {
		t.Errorf("a policy is missing: %+v", p)
	}
	if _, err := scheduler.New(nil, p); err != nil {
		t.Error(err)
	}
}

// TestError: a wrong name is refused, and the error says whose it is.
func TestError(t *testing.T) {
	for part, change := range map[string]func(*Names){
		"order":     func(n *Names) { n.Order = "none such" },
		"placement": func(n *Names) { n.Placement = "none such" },
		"admission": func(n *Names) { n.Admission = "none such" },
		"backfill":  func(n *Names) { n.Backfill = "none such" },
		"victims":   func(n *Names) { n.Victims = "none such" },
	} {
		names := usual
		change(&names)
		_, err := names.set()
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Part != part {
			t.Errorf("%s: got %v", part, err)
		}
	}
}
