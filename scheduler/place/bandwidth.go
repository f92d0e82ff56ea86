package place

import (
	"math"
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// Bandwidth chooses GPUs by the links between them, since a ring of all-reduce is as fast as its
// worst link (Amaral et al., Topology-Aware GPU Scheduling for Learning Workloads in Cloud
// Environments, SC 2017; Agarwal et al., Blox, EuroSys 2024, table 4). On one node it takes those
// GPUs whose worst link is best, and of such sets the one that leaves the most bandwidth between
// the GPUs that stay free; of nodes that are equally good the one with the fewest free GPUs. Across
// nodes it is Topology. A node that does not say how its GPUs are linked has the best links that
// there are. Of more than 16 free GPUs of a node, the worst linked ones are left out of the choice.
type Bandwidth struct {
	nodes  []linked // by number
	tables []*table
}

// linked is a node's table, which holds as long as its links are where they were.
type linked struct {
	links *[]float64
	table *table
}

// table is what is known of all nodes with the same links.
type table struct {
	links   [][]float64 // the worse of both directions
	choices map[query]choice
}

// query is n GPUs out of some.
type query struct {
	free uint64
	n    int
}

type choice struct {
	gpus  uint64
	worst float64 // GB/s
}

const maxEnumerated = 16

// NewBandwidth makes one.
func NewBandwidth() *Bandwidth { return &Bandwidth{} }

// Place finds n GPUs, or a share of one.
func (b *Bandwidth) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if j.Share() < cluster.WholeGPU {
		return tightestShare(f, j)
	}
	if f.WholeFor(j) < n {
		return nil, false
	}
	if n <= f.Largest(j) {
		node, c := b.node(v, j, n)
		return appendGPUs(nil, node, c.gpus), true
	}
	on := make(cluster.Placement, 0, n)
	for _, p := range acrossNodes(f, j, n) {
		on = appendGPUs(on, p.node, b.choose(&v.Nodes()[p.node], f.Mask(p.node), p.gpus).gpus)
	}
	return on, true
}

// node finds the node whose best GPUs have the best worst link. There must be one with n free.
func (b *Bandwidth) node(v scheduler.View, j *scheduler.Job, n int) (node cluster.NodeID, best choice) {
	f := v.Free()
	ideal := b.ideal(v, n)
	best.worst = -1
	for level := n; level <= scheduler.MaxGPUsPerNode; level++ {
		if f.Count(j, level) == 0 {
			continue
		}
		for at, ok := f.Next(j, 0, level, level); ok; at, ok = f.Next(j, at+1, level, level) {
			c := b.choose(&v.Nodes()[at], f.Mask(at), n)
			if c.worst > best.worst {
				node, best = at, c
			}
			if best.worst >= ideal {
				return node, best
			}
		}
	}
	return node, best
}

// ideal is the best worst link that n GPUs of any node have, were all of them free.
func (b *Bandwidth) ideal(v scheduler.View, n int) float64 {
	nodes := v.Nodes()
	if len(b.nodes) != len(nodes) {
		for i := range nodes {
			b.table(&nodes[i])
		}
	}
	ideal := -1.0
	for _, t := range b.tables {
		if n <= len(t.links) {
			ideal = max(ideal, t.choose(1<<len(t.links)-1, n).worst)
		}
	}
	if slices.ContainsFunc(b.nodes, func(l linked) bool { return l.table == nil }) {
		return math.Inf(1)
	}
	return ideal
}

// choose finds the best n of a node's free GPUs.
func (b *Bandwidth) choose(node *cluster.Node, free uint64, n int) choice {
	t := b.table(node)
	if t == nil {
		return choice{lowestBits(free, n), math.Inf(1)}
	}
	return t.choose(free, n)
}

// table finds what is known of a node's links; nil where all are alike.
func (b *Bandwidth) table(node *cluster.Node) *table {
	for len(b.nodes) <= int(node.ID) {
		b.nodes = append(b.nodes, linked{})
	}
	if len(node.Links) < node.GPUs || node.GPUs == 0 {
		b.nodes[node.ID] = linked{}
		return nil
	}
	l := &b.nodes[node.ID]
	if l.links == &node.Links[0] {
		return l.table
	}
	*l = linked{&node.Links[0], nil}
	links := bothWays(node.Links, node.GPUs)
	for _, t := range b.tables {
		if slices.EqualFunc(t.links, links, slices.Equal) {
			l.table = t
			return t
		}
	}
	l.table = &table{links, map[query]choice{}}
	b.tables = append(b.tables, l.table)
	return l.table
}

func bothWays(links [][]float64, gpus int) [][]float64 {
	both := make([][]float64, gpus)
	for a := range both {
		both[a] = make([]float64, gpus)
		for c := range both[a] {
			if a < len(links[c]) && c < len(links[a]) {
				both[a][c] = min(links[a][c], links[c][a])
			}
		}
	}
	return both
}

func (t *table) choose(free uint64, n int) choice {
	q := query{free, n}
	c, known := t.choices[q]
	if !known {
		for bits.OnesCount64(free) > max(n, maxEnumerated) {
			free &^= t.worstLinked(free)
		}
		c = t.enumerate(free, n)
		t.choices[q] = c
	}
	return c
}

// enumerate tries all n of some GPUs, those with the lowest numbers first.
func (t *table) enumerate(free uint64, n int) choice {
	best, rest := choice{worst: -1}, -1.0
	var try func(chosen, left uint64, n int, worst float64)
	try = func(chosen, left uint64, n int, worst float64) {
		if worst < best.worst || bits.OnesCount64(left) < n {
			return
		}
		if n == 0 {
			if r := t.linkSum(free &^ chosen); worst > best.worst || r > rest {
				best, rest = choice{chosen, worst}, r
			}
			return
		}
		for ; left != 0; left &= left - 1 {
			gpu := bits.TrailingZeros64(left)
			try(chosen|1<<gpu, left&(left-1), n-1, min(worst, t.worstLink(gpu, chosen)))
		}
	}
	try(0, free, n, math.Inf(1))
	return best
}

// worstLink is the worst link from one GPU to some.
func (t *table) worstLink(gpu int, others uint64) float64 {
	worst := math.Inf(1)
	for ; others != 0; others &= others - 1 {
		worst = min(worst, t.links[gpu][bits.TrailingZeros64(others)])
	}
	return worst
}

// linkSum is the sum of all links between some GPUs.
func (t *table) linkSum(gpus uint64) float64 {
	sum := 0.0
	for ; gpus != 0; gpus &= gpus - 1 {
		row := t.links[bits.TrailingZeros64(gpus)]
		for others := gpus & (gpus - 1); others != 0; others &= others - 1 {
			sum += row[bits.TrailingZeros64(others)]
		}
	}
	return sum
}

// worstLinked is the GPU with the worst link to one of the others, as a bit; the last one of
// several.
func (t *table) worstLinked(gpus uint64) uint64 {
	worst, which := math.Inf(1), uint64(0)
	for left := gpus; left != 0; left &= left - 1 {
		gpu := bits.TrailingZeros64(left)
		if w := t.worstLink(gpu, gpus&^(1<<gpu)); w <= worst {
			worst, which = w, 1<<gpu
		}
	}
	return which
}

// lowestBits are the n lowest bits of a mask.
func lowestBits(mask uint64, n int) uint64 {
	rest := mask
	for range n {
		rest &= rest - 1
	}
	return mask &^ rest
}

func appendGPUs(to cluster.Placement, node cluster.NodeID, gpus uint64) cluster.Placement {
	for ; gpus != 0; gpus &= gpus - 1 {
		to = append(to, cluster.GPU{Node: node, Index: int32(bits.TrailingZeros64(gpus))})
	}
	return to
}
