package victims

import (
	"errors"
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

// ErrUnknown is in the chain of an error about a name that no policy for victims has.
var ErrUnknown = errors.New("unknown policy for victims")

// Names are the policies there are: who ranks last, who is cheapest, and both only where it is
// worth it.
func Names() []string { return []string{"tail", "cheapest", "tail-if-worth", "cheapest-if-worth"} }

// ByName makes a policy. The costs may be nil where stopping a job costs nothing.
func ByName(name string, costs scheduler.Costs) (scheduler.Preemptor, error) {
	base, ifWorth := strings.CutSuffix(name, "-if-worth")
	var policy scheduler.Preemptor
	switch base {
	case "tail":
		policy = Tail{}
	case "cheapest":
		policy = Cheapest{Costs: costs}
	default:
		return nil, fmt.Errorf("%w %q; there are %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	if ifWorth {
		policy = Worth{Of: policy, Costs: costs}
	}
	return policy, nil
}
