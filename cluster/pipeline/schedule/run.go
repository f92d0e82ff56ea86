package schedule

import "github.com/phos-gpu/phos/cluster/pipeline"

// Work is what a stage does to one microbatch, in nanoseconds.
type Work struct{ Forward, Backward int64 }

// Op is a piece of an iteration: a stage's forward or backward pass of a microbatch.
type Op struct {
	Stage, Microbatch int
	Backward          bool
	From, To          int64
}

// WorkOf are the stages of a template.
func WorkOf(p *pipeline.Profile, t *pipeline.Template) (stages []Work) {
	for _, s := range t.Stages {
		forward := p.Forward(s.From, s.To, s.GPUs)
		stages = append(stages, Work{forward, s.Time - forward})
	}
	return stages
}

// Run is an iteration: all passes, stage by stage, and when the last one ends. Stage s of S begins
// with S-1-s forward passes, alternates forward and backward passes then, and ends with the
// backward passes that are left.
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

type run struct {
	stages       []Work
	microbatches int
	made         [][]Op
	ends         [][2][]int64 // by stage, forward and backward, of the microbatches done
}

// advance lets each stage do what it can without waiting for what has not been reckoned yet.
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

// step makes a stage's next pass, if what it needs is known.
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

// direction says which pass is next in a stage's order.
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
