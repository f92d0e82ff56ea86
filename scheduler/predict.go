package scheduler

import (
	"slices"
	"time"
)

// Foresees reports whether what waiting jobs are promised comes true to the moment, and to the GPU,
// for as long as Free counts no surprise: nobody comes in between, every run takes some time, and
// as much as its estimate, the engine decides whenever something happens, and the jobs that have
// the same GPUs to themselves know no others. Then a promise may as well be made later: it will be
// the same.
func (e *Engine) Foresees() bool {
	p := &e.policies
	_, unranked := p.Order.(Unranked)
	_, lanes := p.Admit.(Laner)
	return unranked && !lanes && p.Costs == nil && p.Speeds == nil && p.Round == 0 && len(p.Caps) == 0 && e.apart() &&
		!e.overdue()
}

// overdue reports whether there is a waiting job that takes no time by its estimate, because it has
// run for as long, mostly.
func (e *Engine) overdue() bool {
	return slices.ContainsFunc(e.groups, func(g *group) bool {
		return g.waiting.root != nil && slices.Contains(g.waiting.root.brief[:], 0)
	})
}

// apart reports whether any two jobs that there have been want whole GPUs and can run either on the
// same ones or on none that both can.
func (e *Engine) apart() bool {
	s := &e.sorts
	if s.kinds != len(e.free.kinds) {
		*s = sorts{kinds: len(e.free.kinds)}
	}
	for ; s.likes < len(e.likes); s.likes++ {
		j := e.likes[s.likes].probe
		s.mixed = s.mixed || j.facts.Share != wholeGPU
		if slices.ContainsFunc(s.each, func(other *Job) bool { return e.free.Same(j, other) }) {
			continue
		}
		s.mixed = s.mixed || slices.ContainsFunc(s.each, func(other *Job) bool { return e.free.meet(j, other) })
		s.each = append(s.each, j)
	}
	return !s.mixed
}

// sorts is what has been found out about the jobs that there have been.
type sorts struct {
	kinds, likes int    // how many it holds for
	each         []*Job // one for each set of GPUs that jobs can run on
	mixed        bool   // some sets overlap, or there are jobs that share a GPU
}

// Same reports whether two jobs can run on the same GPUs.
func (f *Free) Same(a, b *Job) bool {
	return !slices.ContainsFunc(f.kinds, func(k *kind) bool { return k.suits(a) != k.suits(b) })
}

// meet reports whether there are GPUs, open or not, that two jobs can both run on.
func (f *Free) meet(a, b *Job) bool {
	return slices.ContainsFunc(f.kinds, func(k *kind) bool { return k.suits(a) && k.suits(b) })
}

// Hopeful finds the first waiting job behind another for which there are GPUs enough that nobody
// uses, and which takes no longer than it may; longest says that, once for all that want the same
// GPUs. The other must wait, too.
func (e *Engine) Hopeful(behind *Job, longest func(*Job) time.Duration) *Job {
	w := wish{most: e.free.Whole("")}
	e.hurry(&w, longest)
	if found := behind.group.waiting.root.first(&behind.inQueue.key, &w); found != nil {
		return found.job
	}
	return nil
}
