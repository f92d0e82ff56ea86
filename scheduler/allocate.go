package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/cluster"
)

// resize is what an allocation means for one job: it is to run on other GPUs than it has now, or on
// none.
type resize struct {
	job       *Job
	gpus      int
	gpuType   string
	requested cluster.Placement // where the policy wants it, if it says
	on        cluster.Placement // found for it
	speed     float64
}

// allocate makes what an elastic policy says come true: who loses GPUs, moves or changes its size
// stops, and starts again in the same plan.
func (e *Engine) allocate() {
	wanted := e.validAllocations(callPolicy(e, "allocate", func() []Allocation { return e.policies.Allocate.Allocate(e) }))
	changes := e.changes(wanted)
	e.findPlaces(changes)
	for _, c := range changes {
		if c.job.phase == Running && !slices.Equal(c.job.placement, c.on) {
			e.stop(c.job)
		}
	}
	for _, c := range changes {
		if c.on == nil || c.job.phase != Waiting || !c.job.account.allows(c.job, len(c.on)) {
			continue
		}
		c.job.allocatedType = c.gpuType
		e.launch(c.job, c.on, c.speed)
	}
}

// validAllocations is what makes sense of an answer.
func (e *Engine) validAllocations(answer []Allocation) []Allocation {
	e.candidateRound++
	sound := answer[:0:0]
	for _, a := range answer {
		if err := e.checkAllocation(a); err != nil {
			e.reportPolicy("allocate", err)
			continue
		}
		a.Job.candidateIn = e.candidateRound
		if a.GPUs > 0 {
			sound = append(sound, a)
		}
	}
	return sound
}

func (e *Engine) checkAllocation(a Allocation) error {
	if a.Job == nil || e.jobs[a.Job.ID()] != a.Job || a.Job.phase == Held {
		return errors.New("a job that is not there")
	}
	if a.Job.candidateIn == e.candidateRound {
		return fmt.Errorf("job %d twice", a.Job.ID())
	}
	fewest, most := a.Job.Bounds()
	if a.GPUs != 0 && (a.GPUs < fewest || a.GPUs > most) {
		return fmt.Errorf("%d GPUs for job %d, which runs on %d to %d", a.GPUs, a.Job.ID(), fewest, most)
	}
	if a.GPUType != "" && a.Job.facts.GPUType != "" && a.GPUType != a.Job.facts.GPUType {
		return fmt.Errorf("GPUs of type %q for job %d, which needs %q", a.GPUType, a.Job.ID(), a.Job.facts.GPUType)
	}
	return nil
}

// changes are the jobs that do not have what they are to have, those first that are to have
// nothing. Who may not be stopped yet stays.
func (e *Engine) changes(wanted []Allocation) []*resize {
	var changes []*resize
	keeps := map[cluster.JobID]bool{}
	for _, a := range wanted {
		keeps[a.Job.ID()] = true
	}
	for j := range e.Running() {
		if !keeps[j.ID()] && j.preemptible {
			changes = append(changes, &resize{job: j})
		}
	}
	for _, a := range wanted {
		running := a.Job.phase == Running
		if running && (!a.Job.preemptible || e.satisfied(a)) {
			continue
		}
		changes = append(changes, &resize{job: a.Job, gpus: a.GPUs, gpuType: a.GPUType, requested: a.On})
	}
	return changes
}

// satisfied reports whether a running job has what it is to have.
func (e *Engine) satisfied(a Allocation) bool {
	on := a.Job.placement
	if len(a.On) > 0 {
		return slices.Equal(on, a.On)
	}
	return len(on) == a.GPUs && !slices.ContainsFunc(on, func(gpu cluster.GPU) bool {
		return a.GPUType != "" && e.nodes[gpu.Node].GPUType != a.GPUType
	})
}

// findPlaces looks for GPUs for all that change, as if they had none, and leaves everything as it
// was. Where the policy says where, that comes first. Who finds none keeps what it has, if nobody
// took that before him.
func (e *Engine) findPlaces(changes []*resize) {
	for _, c := range changes {
		if c.job.phase == Running {
			e.free.release(c.job.placement, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, -len(c.job.placement))
			c.job.uncounted = true
		}
	}
	for _, c := range changes {
		if len(c.requested) > 0 && !e.takenByOthers(c) {
			c.on, c.speed = e.checkFit(c.job, c.requested, c.gpus, "allocate")
			e.takePlace(c)
		}
	}
	for _, c := range changes {
		if c.gpus > 0 && c.on == nil {
			e.findPlace(c)
			e.takePlace(c)
		}
	}
	for _, c := range changes {
		if c.on != nil {
			e.free.release(c.on, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, -len(c.on))
		}
	}
	for _, c := range changes {
		if c.job.phase == Running {
			e.free.allocate(c.job.placement, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, len(c.job.placement))
			c.job.uncounted = false
		}
	}
}

// takenByOthers reports whether a job cannot have the GPUs that a policy wants for it although that is
// nobody's fault: somebody has them who may not be stopped yet, or its user would hold more than he
// may together with such jobs.
func (e *Engine) takenByOthers(c *resize) bool {
	_, err := e.checkPlacement(c.job, c.requested, c.gpus)
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrQuota)
}

func (e *Engine) findPlace(c *resize) {
	was := c.job.allocatedType
	c.job.allocatedType = c.gpuType
	c.on, c.speed = e.place(c.job, c.gpus)
	c.job.allocatedType = was
	if c.on == nil && c.job.phase == Running {
		if on, err := e.checkPlacement(c.job, c.job.placement, len(c.job.placement)); err == nil {
			c.on, c.speed, c.gpuType = on, c.job.speed, was
		}
	}
}

func (e *Engine) takePlace(c *resize) {
	if c.on != nil {
		e.free.allocate(c.on, c.job.facts.Share)
		c.job.account.adjustHeld(c.job, len(c.on))
	}
}
