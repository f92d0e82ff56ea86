package control

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// placer places launches: each replica whole on one node that has what it asks for. Which of the
// nodes that can take a replica is chosen in the manner of a placement of the scheduler. It is used
// by the scheduler's goroutine; the leader gives it needs and tables.
type placer struct {
	spread bool // prefer the emptiest node, not the fullest
	first  bool // prefer the node with the lowest number
	table  atomic.Pointer[table]

	mu     sync.Mutex
	needs  map[cluster.JobID]need
	chosen map[cluster.JobID]choice
}

// choice is what the placer has answered last for a job.
type choice struct {
	on       cluster.Placement
	assigned []launch.Assignment
	units    map[int][]cluster.GPU
}

func newPlacer(name string) *placer {
	p := &placer{
		first: name == "first-free", spread: name == "spread",
		needs: map[cluster.JobID]need{}, chosen: map[cluster.JobID]choice{},
	}
	p.table.Store(&table{})
	return p
}

// copy returns a placer with the same needs and nodes, whose answers the original does not learn.
func (p *placer) copy() *placer {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &placer{spread: p.spread, first: p.first, needs: maps.Clone(p.needs), chosen: map[cluster.JobID]choice{}}
	c.table.Store(p.table.Load())
	return c
}

// keep notes what a job wants.
func (p *placer) keep(id cluster.JobID, n need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needs[id] = n
}

// forget drops a job.
func (p *placer) forget(id cluster.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.needs, id)
	delete(p.chosen, id)
}

// fill notes in a part where its replicas are in the placement that the placer has answered. A part
// without assignments cannot start.
func (p *placer) fill(to *part, on cluster.Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to.on = on
	if c := p.chosen[to.id]; slices.Equal(c.on, on) {
		to.assigned, to.units = slices.Clone(c.assigned), c.units
	}
}

// Place implements scheduler.Placer.
func (p *placer) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	p.mu.Lock()
	want, known := p.needs[j.ID()]
	p.mu.Unlock()
	if !known {
		return nil, false
	}
	free := v.Free()
	f := &fitting{placer: p, free: free.Mask, table: *p.table.Load(), need: &want, gpus: want.gpus() > 0}
	if want.units(f.gpus) != n || !f.placeAll() {
		return nil, false
	}
	slices.SortFunc(f.on, compareGPUs)
	p.mu.Lock()
	p.chosen[j.ID()] = choice{on: f.on, assigned: f.assigned, units: f.units}
	p.mu.Unlock()
	return f.on, true
}

// compareGPUs orders GPUs as a placement has them.
func compareGPUs(a, b cluster.GPU) int {
	if a.Node != b.Node {
		return int(a.Node) - int(b.Node)
	}
	return int(a.Index) - int(b.Index)
}

// fitting is one attempt to place a job.
type fitting struct {
	placer   *placer
	free     func(cluster.NodeID) uint64 // a bit for each free GPU or place of a node
	table    table
	need     *need
	gpus     bool
	taken    map[cluster.NodeID]*taken
	on       cluster.Placement
	assigned []launch.Assignment
	units    map[int][]cluster.GPU
}

// taken is what replicas of the same job have got of a node.
type taken struct {
	units             uint64 // a bit for each GPU or place
	millicpus, memory uint64
}

// placeAll places the replicas, those that want most first.
func (f *fitting) placeAll() bool {
	f.taken, f.units = map[cluster.NodeID]*taken{}, map[int][]cluster.GPU{}
	order := slices.Clone(f.need.replicas)
	slices.SortStableFunc(order, func(a, b replicaNeed) int { return b.units(f.gpus) - a.units(f.gpus) })
	for i := range order {
		if !f.placeReplica(&order[i]) {
			return false
		}
	}
	return true
}

// placeReplica places one replica on the best node that can take it.
func (f *fitting) placeReplica(r *replicaNeed) bool {
	best, bestUnits, bestLeft := cluster.NodeID(-1), []cluster.GPU(nil), 0
	for i := range f.table {
		id := cluster.NodeID(i)
		units, left, ok := f.unitsOn(id, r)
		if ok && (best < 0 || f.better(left, bestLeft)) {
			best, bestUnits, bestLeft = id, units, left
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
	case f.placer.first:
		return false
	case f.placer.spread:
		return left > than
	}
	return left < than
}

// unitsOn returns the GPUs or places that a replica would get on a node, and how many would be
// left.
func (f *fitting) unitsOn(id cluster.NodeID, r *replicaNeed) (units []cluster.GPU, left int, ok bool) {
	t, has := &f.table[id], f.taken[id]
	if has == nil {
		has = &taken{}
	}
	if !t.takes(f.need, r, has.millicpus, has.memory) {
		return nil, 0, false
	}
	mask := f.free(id) &^ has.units
	for index := range int32(slots) {
		if mask&(1<<index) == 0 {
			continue
		}
		gpu := cluster.GPU{Node: id, Index: index}
		if f.gpus && !t.suits(r, gpu) {
			continue
		}
		if len(units) < r.units(f.gpus) {
			units = append(units, gpu)
		} else {
			left++
		}
	}
	return units, left, len(units) == r.units(f.gpus)
}

// take notes what a replica has got.
func (f *fitting) take(id cluster.NodeID, r *replicaNeed, units []cluster.GPU) {
	has := f.taken[id]
	if has == nil {
		has = &taken{}
		f.taken[id] = has
	}
	has.millicpus += r.millicpus
	has.memory += r.memory
	a := launch.Assignment{Replica: r.replica, Node: f.table[id].name}
	for _, unit := range units {
		has.units |= 1 << unit.Index
		if f.gpus {
			a.GPUs = append(a.GPUs, f.table[id].gpus[unit.Index].Index)
		}
	}
	f.on = append(f.on, units...)
	f.units[r.replica] = units
	f.assigned = append(f.assigned, a)
}
