package scheduler

import (
	"slices"
	"time"
)

// ReservationsExact reports whether reservations will come true exactly, in time and GPUs, as long
// as Free counts no deviation. This needs: no job arrives in between, every run takes exactly its
// (positive) estimate, the engine decides at every event, and any two jobs either run on the same
// GPUs or have none in common. A reservation may then be computed later with the same result.
func (e *Engine) ReservationsExact() bool {
	p := &e.policies
	_, unranked := p.Order.(Unranked)
	_, tenants := p.Admit.(TenantAdmitter)
	return unranked && !tenants && p.Costs == nil && p.Speeds == nil && p.Round == 0 && len(p.Caps) == 0 && e.disjoint() &&
		!e.overdue()
}

// overdue reports whether a waiting job has no remaining time by its estimate, usually because it
// has run for that long.
func (e *Engine) overdue() bool {
	return slices.ContainsFunc(e.groups, func(g *group) bool {
		return g.waiting.root != nil && slices.Contains(g.waiting.root.shortest[:], 0)
	})
}

// disjoint reports whether all jobs so far want whole GPUs, and any two of them can run either on
// the same GPUs or on none in common.
func (e *Engine) disjoint() bool {
	s := &e.overlap
	if s.nodeClasses != len(e.free.classes) {
		*s = overlapState{nodeClasses: len(e.free.classes)}
	}
	for ; s.jobClasses < len(e.classes); s.jobClasses++ {
		j := e.classes[s.jobClasses].probe
		s.mixed = s.mixed || j.facts.Share != wholeGPU
		if slices.ContainsFunc(s.distinct, func(other *Job) bool { return e.free.SameGPUs(j, other) }) {
			continue
		}
		s.mixed = s.mixed || slices.ContainsFunc(s.distinct, func(other *Job) bool { return e.free.overlapAny(j, other) })
		s.distinct = append(s.distinct, j)
	}
	return !s.mixed
}

// overlapState caches what disjoint has found out.
type overlapState struct {
	nodeClasses, jobClasses int    // how many of each were examined
	distinct                []*Job // one job for each distinct set of GPUs
	mixed                   bool   // some sets overlap, or some jobs share a GPU
}

// SameGPUs reports whether two jobs can run on the same GPUs.
func (f *Free) SameGPUs(a, b *Job) bool {
	return !slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) != k.suits(b) })
}

// overlapAny reports whether there are GPUs, on open nodes or not, that both jobs can run on.
func (f *Free) overlapAny(a, b *Job) bool {
	return slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) && k.suits(b) })
}

// NextBackfill returns the first waiting job behind another one for which there are enough unused
// GPUs and that runs no longer than it may. It calls longest once for each equivalence class. The
// other job must be waiting, too.
func (e *Engine) NextBackfill(behind *Job, longest func(*Job) time.Duration) *Job {
	w := filter{maxGPUs: e.free.Whole("")}
	e.limitTimes(&w, longest)
	if found := behind.group.waiting.root.first(&behind.inQueue.key, &w); found != nil {
		return found.job
	}
	return nil
}
