package code

import (
	"slices"
)

// Recent remembers the last kernels launched.
type Recent struct {
	functions [8]*Function
	at        int
}

// note is called at every launch: the same kernel again costs one comparison.
func (r *Recent) note(f *Function) {
	if r.functions[r.at] != f {
		r.at = (r.at + 1) % len(r.functions)
		r.functions[r.at] = f
	}
}

func (r *Recent) Names() []string {
	var names []string
	for i := range r.functions {
		f := r.functions[(r.at-i+len(r.functions))%len(r.functions)]
		if f != nil && !slices.Contains(names, f.Info.Name) {
			names = append(names, f.Info.Name)
		}
	}
	return names
}
