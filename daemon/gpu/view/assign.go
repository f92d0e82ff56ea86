package view

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
)

// ErrAssignment is returned for GPUs that saved programs cannot be given.
var ErrAssignment = errors.New("these GPUs cannot be assigned")

// Seen is a GPU that saved programs saw.
type Seen struct {
	// Ordinal is what it had on the machine where they were saved.
	Ordinal int
	// Used means that they had memory on it.
	Used bool
}

// Assign returns the ordinals that GPUs get on a machine with count GPUs, by those that they had.
// The GPUs that the programs saw become the wanted ones, in this order. If fewer are wanted, they
// are for the GPUs that the programs used, or, if they used none, for the first. All others stay
// where they are if that is free, or take the first that is left.
func Assign(seen []Seen, wanted []int, count int) (map[int]int, error) {
	if err := checkWanted(wanted, count); err != nil {
		return nil, err
	}
	if len(seen) > count {
		return nil, fmt.Errorf("%w: the program saw %d, and here are %d", ErrAssignment, len(seen), count)
	}
	named := seen
	if len(wanted) < len(seen) {
		named = slices.DeleteFunc(slices.Clone(seen), func(s Seen) bool { return !s.Used })
	}
	if len(named) == 0 {
		named = seen[:min(len(wanted), len(seen))]
	}
	if len(wanted) < len(named) {
		return nil, fmt.Errorf("%w: the program used %s (%s); name as many", ErrAssignment,
			words.CountOf(len(named), "GPU"), ordinals(named))
	}
	moved := make(map[int]int, len(seen))
	for i, s := range named {
		moved[s.Ordinal] = wanted[i]
	}
	if len(named) < len(seen) {
		assignRest(moved, seen, count)
	}
	return moved, nil
}

// checkWanted returns an error if a machine with count GPUs lacks one of these, or if one is named
// twice.
func checkWanted(wanted []int, count int) error {
	for i, ordinal := range wanted {
		if ordinal < 0 || ordinal >= count {
			return fmt.Errorf("%w: there is no GPU %d here, only %s", ErrAssignment, ordinal, words.CountOf(count, "GPU"))
		}
		if slices.Contains(wanted[:i], ordinal) {
			return fmt.Errorf("%w: GPU %d is named twice", ErrAssignment, ordinal)
		}
	}
	return nil
}

// assignRest gives those GPUs a place that have none.
func assignRest(moved map[int]int, seen []Seen, count int) {
	taken := make(map[int]bool, count)
	for _, ordinal := range moved {
		taken[ordinal] = true
	}
	var homeless []Seen
	for _, s := range seen {
		if _, has := moved[s.Ordinal]; has {
			continue
		}
		if s.Ordinal >= count || taken[s.Ordinal] {
			homeless = append(homeless, s)
			continue
		}
		moved[s.Ordinal], taken[s.Ordinal] = s.Ordinal, true
	}
	next := 0
	for _, s := range homeless {
		for taken[next] {
			next++
		}
		moved[s.Ordinal], taken[next] = next, true
	}
}

// ordinals lists GPUs for a message.
func ordinals(all []Seen) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = strconv.Itoa(s.Ordinal)
	}
	return strings.Join(texts, ", ")
}
