package view

import (
	"maps"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// Renumbered are GPUs of this machine by the numbers that the programs of a restored tree know them
// by, as far as these differ: the tree was saved on other GPUs, whose numbers are in the
// environments of its processes, and of those that they start. No two numbers have the same GPU,
// and none has that of a number which is not listed. A negative one stands for no GPU.
type Renumbered map[int]int

// Valid reports whether numbers from elsewhere can be those of some machine with at most most GPUs.
func (r Renumbered) Valid(most int) bool {
	taken := map[int]bool{}
	for known, ordinal := range r {
		if known < 0 || known >= most || ordinal < -1 || ordinal >= most || taken[ordinal] {
			return false
		}
		taken[ordinal] = ordinal >= 0
	}
	for ordinal := range taken {
		if _, listed := r[ordinal]; ordinal >= 0 && !listed {
			return false // it belongs to the number that equals it, too
		}
	}
	return true
}

// Of returns the GPU of a number.
func (r Renumbered) Of(known int) int {
	if ordinal, listed := r[known]; listed {
		return ordinal
	}
	return known
}

// After returns the numbers after one more restore, which has moved GPUs of the machine before to
// GPUs of this one, which has count. Other GPUs stay where they are if that is free, or get the
// first that is left.
func (r Renumbered) After(moved map[int]int, count int) Renumbered {
	places, all := maps.Clone(moved), make([]int, max(count, r.limit(), Renumbered(moved).limit()))
	if places == nil {
		places = map[int]int{}
	}
	for i := range all {
		all[i] = i
	}
	settle(places, all, count)
	after := Renumbered{}
	for _, known := range all {
		ordinal := r.Of(known)
		if ordinal >= 0 {
			ordinal = places[ordinal]
		}
		_, listed := r[known]
		if ordinal != known && (listed || ordinal >= 0 || known < count) {
			after[known] = ordinal
		}
	}
	return after
}

// limit is more than all numbers and GPUs that are listed.
func (r Renumbered) limit() (limit int) {
	for known, ordinal := range r {
		limit = max(limit, known+1, ordinal+1)
	}
	return limit
}

// Visible returns what a program of the tree sees: as Parse does, but for the numbers; all GPUs if
// the variable is not set.
func (r Renumbered) Visible(value string, set bool, devices []gpu.DeviceInfo) []int {
	known := slices.Concat(devices, make([]gpu.DeviceInfo, max(0, r.limit()-len(devices))))
	var visible []int
	if set {
		visible = Parse(value, known)
	} else {
		for number := range known {
			if ordinal := r.Of(number); ordinal >= 0 && ordinal < len(devices) {
				visible = append(visible, number)
			}
		}
	}
	for i, number := range visible {
		ordinal := r.Of(number)
		if ordinal < 0 || ordinal >= len(devices) {
			return visible[:i] // as behind a number that names no GPU
		}
		visible[i] = ordinal
	}
	return visible
}
