package backfill

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
)

// Names returns the names that ByName knows.
func Names() []string { return []string{"none", "easy", "conservative"} }

// ByName returns a Backfiller, which belongs to one engine; nil for none. "conservative:N" makes
// reservations for the first N waiting jobs only.
func ByName(name string) (scheduler.Backfiller, error) {
	kind, depth, bounded := strings.Cut(name, ":")
	switch {
	case name == "none":
		return nil, nil
	case name == "easy":
		return NewEASY(), nil
	case name == "conservative":
		return NewConservative(0), nil
	case kind == "conservative" && bounded:
		n, err := strconv.Atoi(depth)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("backfill %q: %q is not a number of jobs of at least 1", name, depth)
		}
		return NewConservative(n), nil
	}
	return nil, fmt.Errorf("unknown backfill %q; want one of %s", name, strings.Join(Names(), ", "))
}
