package scheduler

import (
	"slices"
	"time"
)

// ReservationsExact reports whether what waiting jobs are promised comes true to the moment, and to the GPU,
// for as long as Free counts no surprise: nobody comes in between, every run takes some time, and
// as much as its estimate, the engine decides whenever something happens, and the jobs that have
// the same GPUs to themselves know no others. Then a promise may as well be made later: it will be
// the same.
func (e *Engine) ReservationsExact() bool {
	p := &e.policies
	_, unranked := p.Order.(Unranked)
	_, lanes := p.Admit.(TenantAdmitter)
	return unranked && !lanes && p.Costs == nil && p.Speeds == nil && p.Round == 0 && len(p.Caps) == 0 && e.disjoint() &&
		!e.overdue()
}

// overdue reports whether there is a waiting job that takes no time by its estimate, because it has
// run for as long, mostly.
func (e *Engine) overdue() bool {
	return slices.ContainsFunc(e.groups, func(g *group) bool {
		return g.waiting.root != nil && slices.Contains(g.waiting.root.shortest[:], 0)
	})
}

// disjoint reports whether any two jobs that there have been want whole GPUs and can run either on the
// same ones or on none that both can.
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

// overlapState is what has been found out about the jobs that there have been.
type overlapState struct {
	nodeClasses, jobClasses int    // how many it holds for
	distinct                []*Job // one for each set of GPUs that jobs can run on
	mixed                   bool   // some sets overlap, or there are jobs that share a GPU
}

// SameGPUs reports whether two jobs can run on the same GPUs.
func (f *Free) SameGPUs(a, b *Job) bool {
	return !slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) != k.suits(b) })
}

// overlapAny reports whether there are GPUs, open or not, that two jobs can both run on.
func (f *Free) overlapAny(a, b *Job) bool {
	return slices.ContainsFunc(f.classes, func(k *nodeClass) bool { return k.suits(a) && k.suits(b) })
}

// NextBackfill finds the first waiting job behind another for which there are GPUs enough that nobody
// uses, and which takes no longer than it may; longest says that, once for all that want the same
// GPUs. The other must wait, too.
func (e *Engine) NextBackfill(behind *Job, longest func(*Job) time.Duration) *Job {
	w := filter{maxGPUs: e.free.Whole("")}
	e.limitTimes(&w, longest)
	if found := behind.group.waiting.root.first(&behind.inQueue.key, &w); found != nil {
		return found.job
	}
	return nil
}
