package template

import (
	"fmt"

	"github.com/phos-gpu/phos/cluster/pipeline"
)

// Recursive searches as Oobleck does, for comparison: it divides the problem at every layer, keeps
// the best of each half and combines them. What is best for a half need not be best for the whole,
// so it sometimes finds worse cuts, and takes longer. Stages have a power of two of a node's GPUs,
// nodes are only halved, and memory is ignored.
type Recursive struct {
	Profile     *pipeline.Profile
	GPUsPerNode int

	known map[part]*half
}

// part is a subproblem: layers from..to-1 in a number of stages on so many nodes, or on some GPUs
// of one.
type part struct{ stages, from, to, nodes, gpus int }

// half is the best known solution of a part: the three terms of its time.
type half struct {
	first, last    int64 // T1 and T3
	slowest        int64
	place, stages  int
	left, right    *half
	from, to, gpus int
}

// time returns T1 + T2 + T3 with four microbatches per stage.
func (h *half) time() int64 {
	return h.first + int64(PlanningMicrobatches*h.stages-h.stages+h.place-1)*h.slowest + h.last
}

// ReleasedTime returns the time that the released planner reports for a template: its middle term
// differs from the paper's.
func ReleasedTime(t *pipeline.Template) int64 {
	k := t.Bottleneck()
	line := t.Line()
	papers := int64(t.Microbatches - len(t.Stages) + k - 1)
	released := int64(2*len(t.Stages) + k + 1)
	return line.At(t.Microbatches) + (released-papers)*line.Each
}

// Template returns the cut that the recursion finds for a number of nodes.
func (r *Recursive) Template(nodes int) (*pipeline.Template, error) {
	if r.known == nil {
		r.known = map[part]*half{}
	}
	var best *half
	for stages := nodes; stages <= min(r.Profile.Len(), nodes*r.GPUsPerNode); stages++ {
		if found := r.find(part{stages, 0, r.Profile.Len(), nodes, r.GPUsPerNode}); found != nil &&
			(best == nil || found.time() < best.time()) {
			best = found
		}
	}
	if best == nil {
		return nil, &pipeline.InfeasibleError{
			Problem: fmt.Sprintf("the recursive search finds no cut of %d layers for %d nodes of %d GPUs",
				r.Profile.Len(), nodes, r.GPUsPerNode),
		}
	}
	t := &pipeline.Template{Nodes: nodes, Microbatches: PlanningMicrobatches * best.stages}
	used := 0
	best.walk(func(h *half) {
		t.Stages = append(
			t.Stages,
			pipeline.Stage{From: h.from, To: h.to, GPUs: h.gpus, Time: h.slowest, Node: used / r.GPUsPerNode},
		)
		used += h.gpus
	})
	return t, nil
}

// walk calls each for every stage, in order.
func (h *half) walk(each func(*half)) {
	if h.left == nil {
		each(h)
		return
	}
	h.left.walk(each)
	h.right.walk(each)
}

// find is search with a cache.
func (r *Recursive) find(p part) *half {
	if p.stages > p.to-p.from || p.stages < p.nodes || p.stages > p.nodes*p.gpus {
		return nil
	}
	if found, known := r.known[p]; known {
		return found
	}
	found := r.search(p)
	r.known[p] = found
	return found
}

// search tries every division of a part.
func (r *Recursive) search(p part) (best *half) {
	if p.stages == 1 {
		if !r.Profile.Measured(p.gpus) {
			return nil
		}
		w := r.Profile.Time(p.from, p.to, p.gpus)
		return &half{first: w, last: w, slowest: w, stages: 1, from: p.from, to: p.to, gpus: p.gpus}
	}
	for cut := p.from + 1; cut < p.to; cut++ {
		for stages := 1; stages < p.stages; stages++ {
			best = r.improve(best, p, cut, stages)
		}
	}
	return best
}

// improve divides a part at a layer and a stage in every way that its GPUs allow.
func (r *Recursive) improve(best *half, p part, cut, stages int) *half {
	consider := func(left, right part) {
		a := r.find(left)
		if a == nil {
			return
		}
		if b := r.find(right); b != nil {
			if both := join(a, b); best == nil || both.time() < best.time() {
				best = both
			}
		}
	}
	if p.nodes == 1 {
		if p.gpus%2 == 0 {
			consider(part{stages, p.from, cut, 1, p.gpus / 2}, part{p.stages - stages, cut, p.to, 1, p.gpus / 2})
		}
		return best
	}
	for nodes := 1; nodes < p.nodes; nodes++ {
		consider(part{stages, p.from, cut, nodes, p.gpus}, part{p.stages - stages, cut, p.to, p.nodes - nodes, p.gpus})
	}
	return best
}

// join combines two halves. Of equally slow stages the last one counts.
func join(a, b *half) *half {
	both := &half{first: a.first + b.first, stages: a.stages + b.stages, left: a, right: b}
	if a.slowest > b.slowest {
		both.slowest, both.place, both.last = a.slowest, a.place, a.last+b.first
	} else {
		both.slowest, both.place, both.last = b.slowest, a.stages+b.place, b.last
	}
	return both
}
