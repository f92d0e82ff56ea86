package admit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

var (
	// ErrUnknown is returned for the name of an unknown admission policy.
	ErrUnknown = errors.New("unknown admission policy")
	// ErrParameter is returned for an invalid parameter behind a name's colon.
	ErrParameter = errors.New("bad parameter of an admission policy")
)

// Names returns the policies and their parameters.
func Names() []string { return []string{"all", "load:X", "quota:F"} }

// ByName returns a policy by its name: "all", "load:1.2", "quota:0.25".
func ByName(name string) (scheduler.Admitter, error) {
	kind, argument, given := strings.Cut(name, ":")
	switch {
	case kind == "all" && !given:
		return All{}, nil
	case kind != "load" && kind != "quota":
		return nil, fmt.Errorf("%w %q; want one of %s", ErrUnknown, name, strings.Join(Names(), ", "))
	}
	factor, err := strconv.ParseFloat(argument, 64)
	if err != nil || !(factor > 0) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("%w: %q, expected %s and a number above 0, as %s:1.2", ErrParameter, name, kind, kind)
	}
	if kind == "load" {
		return Load{factor}, nil
	}
	return Quota{factor}, nil
}
