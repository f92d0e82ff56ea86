package fit

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Placer places launches: each replica whole on one node that has what it asks for. Which of the
// nodes that can take a replica is chosen in the manner of a placement of the scheduler. It is used
// by the scheduler's goroutine; the leader gives it needs and tables.
type Placer struct {
	spread bool // prefer the emptiest node, not the fullest
	first  bool // prefer the node with the lowest number
	table  atomic.Pointer[Table]

	mu     sync.Mutex
	needs  map[cluster.JobID]Need
	chosen map[cluster.JobID]choice
}

// choice is what the placer has answered last for a job.
type choice struct {
	on       cluster.Placement
	assigned []launch.Assignment
	units    map[int][]cluster.GPU
}

// NewPlacer returns a placer without nodes, in the manner of the placement with a name.
func NewPlacer(name string) *Placer {
	p := &Placer{
		first: name == "first-free", spread: name == "spread",
		needs: map[cluster.JobID]Need{}, chosen: map[cluster.JobID]choice{},
	}
	p.table.Store(&Table{})
	return p
}

// Copy returns a placer with the same needs and nodes, whose answers the original does not learn.
func (p *Placer) Copy() *Placer {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Placer{spread: p.spread, first: p.first, needs: maps.Clone(p.needs), chosen: map[cluster.JobID]choice{}}
	c.table.Store(p.table.Load())
	return c
}

// Keep notes what a job wants.
func (p *Placer) Keep(id cluster.JobID, n Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needs[id] = n
}

// RefusesToWait reports whether a job is to end if there is no place for it now.
func (p *Placer) RefusesToWait(id cluster.JobID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.needs[id].RefusesToWait
}

// Forget drops a job.
func (p *Placer) Forget(id cluster.JobID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.needs, id)
	delete(p.chosen, id)
}

// SetTable gives the placer what the nodes have from now on.
func (p *Placer) SetTable(t Table) { p.table.Store(&t) }

// Answer returns where the replicas of a job are in the placement that the placer has answered, and
// the units of each; nil if the placement is another one.
func (p *Placer) Answer(id cluster.JobID, on cluster.Placement) ([]launch.Assignment, map[int][]cluster.GPU) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.chosen[id]
	if !slices.Equal(c.on, on) {
		return nil, nil
	}
	return slices.Clone(c.assigned), c.units
}

// Place implements scheduler.Placer.
func (p *Placer) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	p.mu.Lock()
	want, known := p.needs[j.ID()]
	p.mu.Unlock()
	if !known {
		return nil, false
	}
	free := v.Free()
	f := newFitting(*p.table.Load(), &want, free.Mask)
	f.spread, f.first = p.spread, p.first
	if want.Units(f.gpus) != n || !f.placeAll() {
		return nil, false
	}
	slices.SortFunc(f.on, CompareGPUs)
	p.mu.Lock()
	p.chosen[j.ID()] = choice{on: f.on, assigned: f.assigned, units: f.units}
	p.mu.Unlock()
	return f.on, true
}

// CompareGPUs orders GPUs as a placement has them.
func CompareGPUs(a, b cluster.GPU) int {
	if a.Node != b.Node {
		return int(a.Node) - int(b.Node)
	}
	return int(a.Index) - int(b.Index)
}
