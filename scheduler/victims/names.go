package victims

import (
	"errors"
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrUnknown is returned for the name of an unknown policy.
var ErrUnknown = errors.New("unknown policy for victims")

// Names returns the policies: last rank, lowest cost, and both only if the preemption is worth its
// cost.
func Names() []string { return []string{"tail", "cheapest", "tail-if-worth", "cheapest-if-worth"} }

// ByName returns a policy. The costs may be nil if stopping a job costs nothing.
func ByName(name string, costs scheduler.Costs) (scheduler.Preemptor, error) {
	base, ifWorth := strings.CutSuffix(name, "-if-worth")
	var policy scheduler.Preemptor
	switch base {
	case "tail":
		policy = Tail{}
	case "cheapest":
		policy = Cheapest{Costs: costs}
	default:
		return nil, fmt.Errorf("%w %q; want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if ifWorth {
		policy = Worth{Of: policy, Costs: costs}
	}
	return policy, nil
}
