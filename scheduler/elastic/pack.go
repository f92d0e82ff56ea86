package elastic

import (
	"cmp"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// packer places jobs on nodes, each on the fewest possible (Optimus, §4.2: gradients travel between
// nodes, so the fewest nodes are the fastest).
type packer struct {
	nodes  []cluster.Node
	free   []int // by node
	picker *gpuPicker
}

func newPacker(v scheduler.View, avail *supply) *packer {
	return &packer{v.Nodes(), slices.Clone(avail.nodes), newGPUPicker(avail.gpus)}
}

// pack finds GPUs for all claims. A job that keeps its number of GPUs stays, unless it can move to
// fewer nodes; the others are placed from the largest to the smallest. A job that would be slower
// on several nodes than with fewer GPUs on one node gets the latter.
func (p *packer) pack(claims []*claim) {
	var moving []*claim
	for _, c := range claims {
		switch {
		case c.gpus > 0 && len(c.job.Placement()) == c.gpus:
			c.at = c.job.Placement()
			p.hold(c.at)
		case c.gpus > 0:
			moving = append(moving, c)
		}
	}
	slices.SortStableFunc(moving, func(a, b *claim) int { return cmp.Compare(b.gpus, a.gpus) })
	for _, c := range moving {
		if r := p.fastest(c); r != nil {
			c.gpus = r.gpus()
			c.at = p.allocate(r)
		}
	}
	for _, c := range claims {
		if c.at == nil || c.at.Nodes() == 1 {
			continue
		}
		p.release(c.at)
		r := p.fastest(c)
		if r != nil && r.gpus() == c.gpus && r.spans() < c.at.Nodes() {
			c.at = p.allocate(r)
		} else {
			p.hold(c.at)
		}
	}
}

// fastest returns where a job goes, or nil.
func (p *packer) fastest(c *claim) row {
	r := p.find(c.job, c.gpus)
	if r == nil || r.spans() == 1 {
		return r
	}
	alone := 0
	for node := range p.free {
		if suits(c.job, &p.nodes[node]) {
			alone = max(alone, p.free[node])
		}
	}
	if alone >= c.fewest && c.model.Rate(1, alone) >= c.model.Rate(r.spans(), c.gpus) {
		return p.find(c.job, alone)
	}
	return r
}

// find returns the one node where so many GPUs leave the fewest over, else the nodes with the most
// free GPUs, or nil.
func (p *packer) find(j *scheduler.Job, gpus int) row {
	var able []int
	best := -1
	for node, free := range p.free {
		if free == 0 || !suits(j, &p.nodes[node]) {
			continue
		}
		able = append(able, node)
		if free >= gpus && (best < 0 || free < p.free[best]) {
			best = node
		}
	}
	r := make(row, len(p.free))
	if best >= 0 {
		r[best] = gpus
		return r
	}
	slices.SortStableFunc(able, func(a, b int) int { return cmp.Compare(p.free[b], p.free[a]) })
	for _, node := range able {
		r[node] = min(gpus, p.free[node])
		if gpus -= r[node]; gpus == 0 {
			return r
		}
	}
	return nil
}

// allocate takes the row's GPUs from what is free and returns which ones they are.
func (p *packer) allocate(r row) cluster.Placement {
	for node, n := range r {
		p.free[node] -= n
	}
	return p.picker.pick(r)
}

// hold marks the GPUs of a placement as used.
func (p *packer) hold(on cluster.Placement) {
	for _, gpu := range on {
		if p.picker.take(gpu) {
			p.free[gpu.Node]--
		}
	}
}

func (p *packer) release(on cluster.Placement) {
	for _, gpu := range on {
		p.picker.release(gpu)
		p.free[gpu.Node]++
	}
}
