package view

import (
	"errors"
	"fmt"
	"slices"

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
// Those in had, in their order, become the wanted ones. Without had, the GPUs that the programs saw
// do; if fewer are wanted, they are for the GPUs that the programs used, or, if they used none, for
// the first. All others that they saw stay where they are if that is free, or take the first that
// is left.
func Assign(seen []Seen, had, wanted []int, count int) (map[int]int, error) {
	if err := checkWanted(wanted, count); err != nil {
		return nil, err
	}
	if len(seen) > count {
		return nil, fmt.Errorf("%w: the program saw %d, and here are %d", ErrAssignment, len(seen), count)
	}
	moved := make(map[int]int, len(seen))
	if len(had) == 0 {
		named, err := choose(seen, len(wanted))
		if err != nil {
			return nil, err
		}
		had, wanted = named, wanted[:len(named)]
	}
	if len(had) != len(wanted) {
		return nil, fmt.Errorf("%w: it had %s, and is to get %s", ErrAssignment,
			words.CountOf(len(had), "GPU"), words.CountOf(len(wanted), "GPU"))
	}
	for i, ordinal := range had {
		if _, twice := moved[ordinal]; twice || ordinal < 0 {
			return nil, fmt.Errorf("%w: it cannot have had GPU %d", ErrAssignment, ordinal)
		}
		moved[ordinal] = wanted[i]
	}
	settle(moved, ordinals(seen), count)
	for _, s := range seen {
		if moved[s.Ordinal] < 0 {
			return nil, fmt.Errorf("%w: the program also saw GPU %d, and none is left for it", ErrAssignment, s.Ordinal)
		}
	}
	return moved, nil
}

// choose returns which of the GPUs that programs saw become the wanted ones, of which there are so
// many or more.
func choose(seen []Seen, wanted int) (chosen []int, err error) {
	named := seen
	if wanted < len(seen) {
		named = slices.DeleteFunc(slices.Clone(seen), func(s Seen) bool { return !s.Used })
	}
	if len(named) == 0 {
		named = seen[:min(wanted, len(seen))]
	}
	chosen = ordinals(named)
	if wanted < len(chosen) {
		return nil, fmt.Errorf("%w: the program used %s (%s); name as many", ErrAssignment,
			words.CountOf(len(chosen), "GPU"), words.Numbers(chosen))
	}
	return chosen, nil
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

// settle finds places for GPUs that were not moved: they stay where they are if that is free, or
// get the first that is left of count; negative: none is left.
func settle(moved map[int]int, rest []int, count int) {
	taken := make([]bool, count)
	for _, ordinal := range moved {
		taken[ordinal] = true
	}
	var homeless []int
	for _, before := range rest {
		switch _, placed := moved[before]; {
		case placed:
		case before < count && !taken[before]:
			moved[before], taken[before] = before, true
		default:
			homeless = append(homeless, before)
		}
	}
	for _, before := range homeless {
		moved[before] = slices.Index(taken, false)
		if moved[before] >= 0 {
			taken[moved[before]] = true
		}
	}
}

// ordinals returns those of GPUs, in their order.
func ordinals(of []Seen) (all []int) {
	for _, s := range of {
		all = append(all, s.Ordinal)
	}
	return all
}
