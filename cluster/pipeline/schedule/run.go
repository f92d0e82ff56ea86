package schedule

import "github.com/phos-gpu/phos/cluster/pipeline"

// Work is a stage's work for one microbatch, in nanoseconds.
type Work struct{ Forward, Backward int64 }

// Op is a stage's forward or backward pass of a microbatch.
type Op struct {
	Stage, Microbatch int
	Backward          bool
	From, To          int64
}

// WorkOf returns the work of a template's stages.
func WorkOf(p *pipeline.Profile, t *pipeline.Template) (stages []Work) {
	for _, s := range t.Stages {
		forward := p.Forward(s.From, s.To, s.GPUs)
		stages = append(stages, Work{forward, s.Time - forward})
	}
	return stages
}

// Run returns all passes of an iteration, stage by stage, and when the last one ends. Stage s of S
// begins with S-1-s forward passes, then alternates forward and backward passes, and ends with the
// remaining backward passes.
func Run(stages []Work, microbatches int) (ops []Op, makespan int64) {
	r := &run{
		stages:       stages,
		microbatches: microbatches,
		made:         make([][]Op, len(stages)),
		ends:         make([][2][]int64, len(stages)),
	}
	for r.advance() {
	}
	for _, made := range r.made {
		ops = append(ops, made...)
		makespan = max(makespan, made[len(made)-1].To)
	}
	return ops, makespan
}

// run is the state of Run.
type run struct {
	stages       []Work
	microbatches int
	made         [][]Op
	ends         [][2][]int64 // by stage, forward and backward, of the completed microbatches
}

// advance lets each stage do what it can with the passes computed so far.
func (r *run) advance() (progress bool) {
	for stage := range r.stages {
		for len(r.made[stage]) < 2*r.microbatches && r.step(stage) {
			progress = true
		}
	}
	return progress
}

const (
	forward  = 0
	backward = 1
)

// step computes a stage's next pass, if its inputs are known.
func (r *run) step(stage int) bool {
	direction := r.direction(stage)
	microbatch := len(r.ends[stage][direction])
	from := int64(0)
	if made := r.made[stage]; len(made) > 0 {
		from = made[len(made)-1].To
	}
	neighbour := stage - 1
	if direction == backward {
		neighbour = stage + 1
	}
	if neighbour >= 0 && neighbour < len(r.stages) {
		done := r.ends[neighbour][direction]
		if len(done) <= microbatch {
			return false
		}
		from = max(from, done[microbatch])
	}
	took := r.stages[stage].Forward
	if direction == backward {
		took = r.stages[stage].Backward
	}
	r.made[stage] = append(r.made[stage], Op{stage, microbatch, direction == backward, from, from + took})
	r.ends[stage][direction] = append(r.ends[stage][direction], from+took)
	return true
}

// direction returns which pass is next in a stage's order.
func (r *run) direction(stage int) int {
	first := min(len(r.stages)-1-stage, r.microbatches)
	done := len(r.made[stage])
	switch {
	case done < first:
		return forward
	case len(r.ends[stage][forward]) == r.microbatches:
		return backward
	case (done-first)%2 == 0:
		return forward
	}
	return backward
}
