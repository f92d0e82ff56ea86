package template

import (
	"context"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// cut is a solution of single: the slowest stage has the layers from..to-1 and is number place.
type cut struct {
	time            int64
	from, to, place int
}

// single returns the best cuts into smallest..largest stages of one GPU each, ignoring memory, in
// O(L³ + S·L²) for all sizes.
//
// Each run of layers is tried as the slowest stage. Stages before it may take as long, stages
// behind it may not (of equal ones the last is the slowest). Nothing else about them matters,
// except that the slowest stage should be early. Filling stages up gives the fewest before it;
// cutting single layers off gives any larger number.
func single(ctx context.Context, p *pipeline.Profile, smallest, largest int) []*pipeline.Template {
	best := make([]cut, largest+1)
	for from := 0; from < p.Len() && ctx.Err() == nil; from++ {
		for to := from + 1; to <= p.Len(); to++ {
			try(p, best, smallest, from, to)
		}
	}
	if ctx.Err() != nil {
		return make([]*pipeline.Template, largest-smallest+1)
	}
	var found []*pipeline.Template
	for stages := smallest; stages <= largest; stages++ {
		found = append(found, best[stages].template(p, stages))
	}
	return found
}

// try takes a run of layers as the slowest stage, for any number of stages.
func try(p *pipeline.Profile, best []cut, smallest, from, to int) {
	slowest := p.Time(from, to, 1)
	before, ok := fewest(p, 0, from, slowest)
	if !ok {
		return
	}
	behind, ok := fewest(p, to, p.Len(), slowest-1)
	if !ok {
		return
	}
	fixed := p.Time(0, p.Len(), 1) + p.Time(from, p.Len(), 1)
	for stages := smallest; stages < len(best); stages++ {
		place := max(before, stages-1-(p.Len()-to))
		if place > from || stages-1-place < behind {
			continue
		}
		time := fixed + int64(PlanningMicrobatches*stages-stages+place-1)*slowest
		if best[stages].time == 0 || time < best[stages].time {
			best[stages] = cut{time, from, to, place}
		}
	}
}

// fewest returns the fewest stages no slower than limit for the layers from..to-1.
func fewest(p *pipeline.Profile, from, to int, limit int64) (stages int, ok bool) {
	for at := from; at < to; stages++ {
		end := fill(p, at, to, limit)
		if end == at {
			return 0, false
		}
		at = end
	}
	return stages, true
}

// fill returns where a stage no slower than limit ends, from a layer on.
func fill(p *pipeline.Profile, from, to int, limit int64) int {
	for end := from; ; end++ {
		if end == to || p.Time(from, end+1, 1) > limit {
			return end
		}
	}
}

// template returns the template with this cut. Stages behind the slowest are faster than it.
func (c cut) template(p *pipeline.Profile, stages int) *pipeline.Template {
	slowest := p.Time(c.from, c.to, 1)
	b := builder{profile: p}
	b.divide(0, c.from, c.place, slowest)
	b.add(c.from, c.to)
	b.divide(c.to, p.Len(), stages-1-c.place, slowest-1)
	return &pipeline.Template{Nodes: stages, Stages: b.stages, Microbatches: PlanningMicrobatches * stages}
}

// builder appends stages of one GPU and node each.
type builder struct {
	profile *pipeline.Profile
	stages  []pipeline.Stage
}

// divide adds a number of stages no slower than limit for the layers from..end-1, the first ones as
// full as possible.
func (b *builder) divide(from, end, stages int, limit int64) {
	for ; stages > 0; stages-- {
		next := min(fill(b.profile, from, end, limit), end-stages+1)
		b.add(from, next)
		from = next
	}
}

func (b *builder) add(from, to int) {
	b.stages = append(
		b.stages,
		pipeline.Stage{From: from, To: to, Node: len(b.stages), GPUs: 1, Time: b.profile.Time(from, to, 1)},
	)
}
