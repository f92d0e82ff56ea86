package place

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Parameters of the placements. The zero value suffices for all but fgd.
type Parameters struct {
	// PackLimit is the skew above which a model's job is not spread; 0 means DefaultPackLimit.
	PackLimit float64

	// Mix is what jobs usually ask for, required by fgd; Mix(jobs) computes it from a trace.
	Mix []Task
}

var placements = []struct {
	name string
	make func(Parameters) (scheduler.Placer, error)
}{
	{"first-free", func(Parameters) (scheduler.Placer, error) { return FirstFree{}, nil }},
	{"best-fit", func(Parameters) (scheduler.Placer, error) { return BestFit{}, nil }},
	{"skew", func(p Parameters) (scheduler.Placer, error) { return Skew{PackLimit: p.PackLimit}, nil }},
	{"topology", func(Parameters) (scheduler.Placer, error) { return Topology{}, nil }},
	{"bandwidth", func(Parameters) (scheduler.Placer, error) { return NewBandwidth(), nil }},
	{"fgd", func(p Parameters) (scheduler.Placer, error) { return NewFGD(p.Mix) }},
}

// Names returns the placements that ByName knows.
func Names() []string {
	var names []string
	for _, m := range placements {
		names = append(names, m.name)
	}
	return names
}

// ByName returns a placement. It belongs to one engine.
func ByName(name string, p Parameters) (scheduler.Placer, error) {
	for _, m := range placements {
		if m.name == name {
			return m.make(p)
		}
	}
	return nil, fmt.Errorf("unknown placement %q; want one of %s", name, strings.Join(Names(), ", "))
}

// FirstFree takes the free GPUs with the lowest numbers, node after node, like a scheduler that
// only counts GPUs.
type FirstFree struct{}

// Place returns n GPUs, or a share of one.
func (FirstFree) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if j.Share() < cluster.WholeGPU {
		gpu, ok := f.FirstShare(j)
		return cluster.Placement{gpu}, ok
	}
	if f.WholeFor(j) < n {
		return nil, false
	}
	on := make(cluster.Placement, 0, n)
	for node := cluster.NodeID(0); n > 0; node++ {
		node, _ = f.Next(j, node, 1, scheduler.MaxGPUsPerNode)
		part := min(n, f.On(node))
		on, n = f.Pick(on, node, part), n-part
	}
	return on, true
}

// Greedy says that any free GPUs are good enough.
func (FirstFree) Greedy() {}

// BestFit takes the fewest nodes: a node with exactly the requested number of free GPUs if there is
// one, else the one where the fewest are left over. A job that no single node can take now gets the
// nodes with the most free GPUs, and the best fit for the rest. A share goes to the GPU with the
// least sufficient free share.
type BestFit struct{}

// Place returns n GPUs, or a share of one.
func (BestFit) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if j.Share() < cluster.WholeGPU {
		return tightestShare(f, j)
	}
	if f.WholeFor(j) < n {
		return nil, false
	}
	var buffer [16]nodePart
	return pickAll(f, fewestNodes(buffer[:0], f, j, n, nil)), true
}

// Greedy says that any free GPUs are good enough.
func (BestFit) Greedy() {}

// tightestShare places a share on the shared GPU with the least room, or on an unused one.
func tightestShare(f *scheduler.Free, j *scheduler.Job) (cluster.Placement, bool) {
	if gpu, ok := f.TightestShare(j); ok {
		return cluster.Placement{gpu}, true
	}
	node, ok := bestFitNode(f, j, 1, nil)
	if !ok {
		return nil, false
	}
	return f.Pick(nil, node, 1), true
}

// nodePart is a number of GPUs of a node.
type nodePart struct {
	node cluster.NodeID
	gpus int
}

// fewestNodes places n GPUs on as few nodes as possible, out of some racks, which must have enough
// free GPUs. The result is appended to parts.
func fewestNodes(parts []nodePart, f *scheduler.Free, j *scheduler.Job, n int, racks []bool) []nodePart {
	if n <= f.Largest(j) {
		if node, ok := bestFitNode(f, j, n, racks); ok {
			return append(parts, nodePart{node, n})
		}
	}
	for level := f.Largest(j); n > 0; level-- {
		node, ok := nextExact(f, j, 0, level, racks)
		for ; ok && n >= level; node, ok = nextExact(f, j, node+1, level, racks) {
			parts, n = append(parts, nodePart{node, level}), n-level
		}
		if ok && n > 0 {
			// The rest fits on one node of this or a lower level, none of which is in use yet.
			if least, below := bestFitNode(f, j, n, racks); below && f.On(least) < level {
				node = least
			}
			parts, n = append(parts, nodePart{node, n}), 0
		}
	}
	return sortParts(parts)
}

// sortParts sorts by node, as placements require.
func sortParts(parts []nodePart) []nodePart {
	slices.SortFunc(parts, func(a, b nodePart) int { return int(a.node - b.node) })
	return parts
}

// bestFitNode returns the first of the nodes with the fewest free GPUs among those with at least n.
func bestFitNode(f *scheduler.Free, j *scheduler.Job, n int, racks []bool) (cluster.NodeID, bool) {
	for level, largest := n, f.Largest(j); level <= largest; level++ {
		if node, ok := nextExact(f, j, 0, level, racks); ok {
			return node, true
		}
	}
	return 0, false
}

// nextExact returns the first node, from a number on, with exactly n free GPUs in one of the racks;
// in any rack if racks is nil.
func nextExact(f *scheduler.Free, j *scheduler.Job, from cluster.NodeID, n int, racks []bool) (cluster.NodeID, bool) {
	if f.Count(j, n) == 0 {
		return 0, false
	}
	node, ok := f.Next(j, from, n, n)
	for ok && racks != nil && !racks[f.Rack(node)] {
		node, ok = f.Next(j, node+1, n, n)
	}
	return node, ok
}

// pickAll picks the GPUs of all parts.
func pickAll(f *scheduler.Free, parts []nodePart) cluster.Placement {
	n := 0
	for _, p := range parts {
		n += p.gpus
	}
	on := make(cluster.Placement, 0, n)
	for _, p := range parts {
		on = f.Pick(on, p.node, p.gpus)
	}
	return on
}
