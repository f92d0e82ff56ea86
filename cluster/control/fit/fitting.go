package fit

import (
	"math/bits"
	"slices"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Slots is how many replicas without GPUs a node takes.
const Slots = scheduler.MaxGPUsPerNode

// fitting is one attempt to place a job.
type fitting struct {
	spread, first bool                        // as the placer has them
	free          func(cluster.NodeID) uint64 // a bit for each free GPU or place of a node
	table         Table
	need          *Need
	gpus          bool
	sent          bool // the image of the replica that is being placed is sent to other nodes
	taken         map[cluster.NodeID]*Taken
	on            cluster.Placement
	assigned      []launch.Assignment
	units         map[int][]cluster.GPU
}

// Taken is what replicas of the same job have got of a node.
type Taken struct {
	units             uint64 // a bit for each GPU or place
	Millicpus, Memory uint64
}

// newFitting returns an attempt to place replicas on nodes where some units are free.
func newFitting(t Table, n *Need, free func(cluster.NodeID) uint64) *fitting {
	return &fitting{table: t, need: n, free: free, gpus: n.allGPUs() > 0}
}

// Add notes that one more replica has got its share.
func (t *Taken) Add(r *Replica) {
	t.Millicpus += r.Millicpus
	t.Memory += r.Memory
}

// placeAll places the replicas, those that want most first.
func (f *fitting) placeAll() bool {
	f.taken, f.units = map[cluster.NodeID]*Taken{}, map[int][]cluster.GPU{}
	order := slices.Clone(f.need.Replicas)
	slices.SortStableFunc(order, func(a, b Replica) int { return b.Units(f.gpus) - a.Units(f.gpus) })
	for i := range order {
		if !f.placeReplica(&order[i]) {
			return false
		}
	}
	return true
}

// placeReplica places one replica on the best node that can take it: one that has its image, if
// there is one.
func (f *fitting) placeReplica(r *Replica) bool {
	f.sent = f.table.Sends(r)
	best, bestUnits, bestLeft, bestHas := cluster.NodeID(-1), []cluster.GPU(nil), 0, false
	for i := range f.table {
		id := cluster.NodeID(i)
		units, left, ok := f.unitsOn(id, r)
		if !ok {
			continue
		}
		has := slices.Contains(r.Nodes, f.table[i].Name)
		if best < 0 || has && !bestHas || has == bestHas && f.better(left, bestLeft) {
			best, bestUnits, bestLeft, bestHas = id, units, left, has
		}
	}
	if best < 0 {
		return false
	}
	f.take(best, r, bestUnits)
	return true
}

// better reports whether a node with so much left is preferred to another one.
func (f *fitting) better(left, than int) bool {
	switch {
	case f.first:
		return false
	case f.spread:
		return left > than
	}
	return left < than
}

// unitsOn returns the GPUs or places that a replica would get on a node, and how many would be
// left.
func (f *fitting) unitsOn(id cluster.NodeID, r *Replica) (units []cluster.GPU, left int, ok bool) {
	t, has := &f.table[id], f.taken[id]
	if has == nil {
		has = &Taken{}
	}
	if !t.Takes(f.need, r, *has) || !t.Reaches(r, f.sent) {
		return nil, 0, false
	}
	mask := f.free(id) &^ has.units
	if bits.OnesCount64(mask) < r.Units(f.gpus) {
		return nil, 0, false
	}
	for ; mask != 0; mask &= mask - 1 {
		gpu := cluster.GPU{Node: id, Index: int32(bits.TrailingZeros64(mask))}
		if f.gpus && !t.suits(r, gpu) {
			continue
		}
		if len(units) < r.Units(f.gpus) {
			units = append(units, gpu)
		} else {
			left++
		}
	}
	return units, left, len(units) == r.Units(f.gpus)
}

// take notes what a replica has got.
func (f *fitting) take(id cluster.NodeID, r *Replica, units []cluster.GPU) {
	has := f.taken[id]
	if has == nil {
		has = &Taken{}
		f.taken[id] = has
	}
	has.Add(r)
	a := launch.Assignment{Replica: r.Number, Node: f.table[id].Name}
	for _, unit := range units {
		has.units |= 1 << unit.Index
		if f.gpus {
			a.GPUs = append(a.GPUs, f.table[id].GPUs[unit.Index].Index)
		}
	}
	f.on = append(f.on, units...)
	f.units[r.Number] = units
	f.assigned = append(f.assigned, a)
}
