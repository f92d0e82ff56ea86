package code

import (
	"slices"
)

// recent remembers the last kernels launched.
type recent struct {
	functions [8]*Function
	at        int
}

// note is called at every launch: the same kernel again costs one comparison.
func (r *recent) note(f *Function) {
	if r.functions[r.at] != f {
		r.at = (r.at + 1) % len(r.functions)
		r.functions[r.at] = f
	}
}

// names lists the kernels launched last, newest first, each once.
func (r *recent) names() []string {
	var names []string
	for i := range r.functions {
		f := r.functions[(r.at-i+len(r.functions))%len(r.functions)]
		if f != nil && !slices.Contains(names, f.info.Name) {
			names = append(names, f.info.Name)
		}
	}
	return names
}

// RecentKernels returns the names of the last different kernels launched, newest first.
func (s *Code) RecentKernels() []string { return s.recent.names() }
