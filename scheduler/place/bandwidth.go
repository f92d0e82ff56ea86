package place

import (
	"math"
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Bandwidth chooses GPUs by the links between them, since a ring all-reduce is as fast as its
// slowest link (Amaral et al., Topology-Aware GPU Scheduling for Learning Workloads in Cloud
// Environments, SC 2017; Agarwal et al., Blox, EuroSys 2024, table 4). On one node it takes the
// GPUs whose slowest link is best. Among such sets it takes the one that leaves the most bandwidth
// between the free GPUs, and among equal nodes the one with the fewest free GPUs. Across nodes it
// is Topology. A node without link data counts as having the best links. If a node has more than 16
// free GPUs, those with the slowest links are not considered.
type Bandwidth struct {
	nodes  []linked // by number
	tables []*table
}

// linked is a node's table, valid while the node has the same links.
type linked struct {
	links *[]float64
	table *table
}

// table is what is known of all nodes with the same links.
type table struct {
	links   [][]float64 // the slower of both directions
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

// maxEnumerated is the most GPUs whose subsets are enumerated.
const maxEnumerated = 16

// NewBandwidth returns a Bandwidth, which belongs to one engine.
func NewBandwidth() *Bandwidth { return &Bandwidth{} }

// Place returns n GPUs, or a share of one.
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

// node returns the node whose best GPUs have the best slowest link. There must be one with n
// unused.
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

// ideal returns the best slowest link that n GPUs of any node have if all are free.
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

// choose returns the best n of a node's free GPUs.
func (b *Bandwidth) choose(node *cluster.Node, free uint64, n int) choice {
	t := b.table(node)
	if t == nil {
		return choice{lowestBits(free, n), math.Inf(1)}
	}
	return t.choose(free, n)
}

// table returns what is known of a node's links; nil if all are equal.
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

// bothWays returns the slower direction of each link.
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

// choose returns the best n of some GPUs.
func (t *table) choose(free uint64, n int) choice {
	q := query{free, n}
	c, ok := t.choices[q]
	if !ok {
		for bits.OnesCount64(free) > max(n, maxEnumerated) {
			free &^= t.worstLinked(free)
		}
		c = t.enumerate(free, n)
		t.choices[q] = c
	}
	return c
}

// enumerate tries all sets of n GPUs, those with the lowest numbers first.
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

// worstLink returns the slowest link from one GPU to some others.
func (t *table) worstLink(gpu int, others uint64) float64 {
	worst := math.Inf(1)
	for ; others != 0; others &= others - 1 {
		worst = min(worst, t.links[gpu][bits.TrailingZeros64(others)])
	}
	return worst
}

// linkSum returns the sum of all links between some GPUs.
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

// worstLinked returns the GPU with the slowest link to one of the others, as a bit; the last one of
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

// lowestBits returns the n lowest bits of a mask.
func lowestBits(mask uint64, n int) uint64 {
	rest := mask
	for range n {
		rest &= rest - 1
	}
	return mask &^ rest
}

// appendGPUs appends a mask of a node's GPUs to a placement.
func appendGPUs(to cluster.Placement, node cluster.NodeID, gpus uint64) cluster.Placement {
	for ; gpus != 0; gpus &= gpus - 1 {
		to = append(to, cluster.GPU{Node: node, Index: int32(bits.TrailingZeros64(gpus))})
	}
	return to
}
