package worker

import "slices"

// chosen are the kinds of state that a checkpoint saves; none: all. What is saved of only some is there to be looked at, and
// no session is made of it again.
type chosen []string

// memoryKinds lie in device memory and in the arena. Variables stand among allocations, so either brings both.
var memoryKinds = []string{"cuda_memory", "cuda_var"}

// counted are the names that session.Counts has for what belongs to a kind. Devices and variables are no objects of a session.
var counted = map[string][]string{
	"cuda_context":  {"context"},
	"cuda_module":   {"module", "library"},
	"cuda_function": {"function", "kernel"},
	"cuda_memory":   {"memory", "pinned memory", "memory pool"},
	"cuda_stream":   {"stream"},
	"cuda_event":    {"event"},
}

// memory reports whether the content of memory is saved.
func (c chosen) memory() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return slices.Contains(memoryKinds, kind) })
}

// objects reports whether the session and its objects are saved.
func (c chosen) objects() bool {
	return len(c) == 0 || slices.ContainsFunc(c, func(kind string) bool { return !slices.Contains(memoryKinds, kind) })
}

// of leaves the counts of what is saved.
func (c chosen) of(all map[string]uint64) map[string]uint64 {
	if len(c) == 0 {
		return all
	}
	some := map[string]uint64{}
	for _, kind := range c {
		for _, name := range counted[kind] {
			if n, there := all[name]; there {
				some[name] = n
			}
		}
	}
	return some
}
