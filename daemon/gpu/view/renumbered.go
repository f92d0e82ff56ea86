package view

import "github.com/phos-gpu/phos/daemon/gpu"

// Renumbered are GPUs of this machine by the numbers that the programs of a restored tree know them
// by, as far as these differ: the tree was saved on other GPUs, whose numbers are in the
// environments of its processes, and of those that they start.
type Renumbered map[int]int

// Then returns the numbers after one more restore, which has moved GPUs of the machine before to
// GPUs of this one.
func (r Renumbered) Then(moved map[int]int) Renumbered {
	after := Renumbered{}
	for known, ordinal := range r {
		after[known] = ordinal
	}
	for before, ordinal := range moved {
		known, found := before, false
		for number, at := range r {
			if at == before {
				known, found = number, true
			}
		}
		if _, elsewhere := r[known]; found || !elsewhere {
			after[known] = ordinal
		}
	}
	for known, ordinal := range after {
		if known == ordinal {
			delete(after, known)
		}
	}
	return after
}

// Visible returns what a program of the tree sees: as Parse does, but for the numbers; all GPUs if
// the variable is not set.
func (r Renumbered) Visible(value string, set bool, devices []gpu.DeviceInfo) []int {
	numbers := r.complete(len(devices))
	known := devices
	if more := len(numbers) - len(devices); more > 0 {
		known = append(append([]gpu.DeviceInfo{}, devices...), make([]gpu.DeviceInfo, more)...)
	}
	visible := make([]int, len(devices))
	for i := range visible {
		visible[i] = i
	}
	if set {
		visible = Parse(value, known)
	}
	for i, number := range visible {
		if numbers[number] < 0 {
			return visible[:i] // as behind a number that names no GPU
		}
		visible[i] = numbers[number]
	}
	return visible
}

// complete returns the GPU of each number on a machine with count GPUs; negative: it has none. A
// number that is not among the changed ones keeps its GPU, or gets one that has no number.
func (r Renumbered) complete(count int) []int {
	numbers, taken := make([]int, count), make([]bool, count)
	for known, ordinal := range r {
		for known >= len(numbers) {
			numbers = append(numbers, 0)
		}
		if ordinal < count {
			taken[ordinal] = true
		}
	}
	var homeless []int
	for number := range numbers {
		ordinal, changed := r[number]
		switch {
		case changed && ordinal < count:
			numbers[number] = ordinal
		case !changed && number < count && !taken[number]:
			numbers[number], taken[number] = number, true
		default:
			homeless = append(homeless, number)
		}
	}
	next := 0
	for _, number := range homeless {
		for next < count && taken[next] {
			next++
		}
		if numbers[number] = next; next == count {
			numbers[number] = -1
			continue
		}
		taken[next] = true
	}
	return numbers
}
