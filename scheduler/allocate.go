package scheduler

import (
	"errors"
	"fmt"
	"slices"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// resize is the change of one job's allocation: other GPUs than now, or none.
type resize struct {
	job       *Job
	gpus      int
	gpuType   string
	requested cluster.Placement // by the policy, if it chose them
	on        cluster.Placement // the placement that was found
	speed     float64
}

// allocate carries out an elastic policy's answer: jobs that lose GPUs, move or change their size
// stop, and start again in the same plan. If waitingOnly is set, running jobs keep what they have.
func (e *Engine) allocate(waitingOnly bool) {
	wanted := e.validAllocations(callPolicy(e, "allocate", func() []Allocation { return e.policies.Allocate.Allocate(e) }))
	changes := e.changes(wanted)
	if waitingOnly {
		changes = slices.DeleteFunc(changes, func(c resize) bool { return c.job.phase == Running })
	}
	e.findPlaces(changes)
	for i := range changes {
		c := &changes[i]
		if c.job.phase == Running && !slices.Equal(c.job.placement, c.on) {
			e.stop(c.job)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.on == nil || c.job.phase != Waiting || !c.job.account.allows(c.job, len(c.on)) {
			continue
		}
		c.job.allocatedType = c.gpuType
		e.free.allocate(c.on, c.job.facts.Share)
		e.launch(c.job, c.on, c.speed)
	}
}

// validAllocations returns the valid part of an answer, until the next call.
func (e *Engine) validAllocations(answer []Allocation) []Allocation {
	e.candidateRound++
	sound := e.sound[:0]
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
	e.sound = sound
	return sound
}

// checkAllocation returns what is wrong with an allocation.
func (e *Engine) checkAllocation(a Allocation) error {
	if a.Job == nil || e.jobs[a.Job.ID()] != a.Job || a.Job.phase == Held {
		return errors.New("allocation for an unknown or held job")
	}
	if a.Job.candidateIn == e.candidateRound {
		return fmt.Errorf("two allocations for job %d", a.Job.ID())
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

// changes returns the jobs whose allocation changes, those that lose all GPUs first, until the next
// call. Jobs stay that are not preemptible yet, or that have GPUs which no job could get if they
// left them.
func (e *Engine) changes(wanted []Allocation) []resize {
	changes := e.resizes[:0]
	e.candidateRound++
	for _, a := range wanted {
		a.Job.candidateIn = e.candidateRound
	}
	for j := range e.Running() {
		if j.candidateIn != e.candidateRound && j.preemptible && e.free.allUsable(j.placement) {
			changes = append(changes, resize{job: j})
		}
	}
	for _, a := range wanted {
		running := a.Job.phase == Running
		if running && (!a.Job.preemptible || !e.free.allUsable(a.Job.placement) || e.satisfied(a)) {
			continue
		}
		changes = append(changes, resize{job: a.Job, gpus: a.GPUs, gpuType: a.GPUType, requested: a.On})
	}
	e.resizes = changes
	return changes
}

// satisfied reports whether a running job has what it is allocated.
func (e *Engine) satisfied(a Allocation) bool {
	on := a.Job.placement
	if len(a.On) > 0 {
		return slices.Equal(on, a.On)
	}
	return len(on) == a.GPUs && !slices.ContainsFunc(on, func(gpu cluster.GPU) bool {
		return a.GPUType != "" && e.nodes[gpu.Node].GPUType != a.GPUType
	})
}

// findPlaces looks for GPUs for all changing jobs as if they had none, and leaves the state
// unchanged. Placements of the policy come first. A job that finds no place keeps its GPUs unless
// another job took them before.
func (e *Engine) findPlaces(changes []resize) {
	for i := range changes {
		c := &changes[i]
		if c.job.phase == Running {
			e.free.release(c.job.placement, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, -len(c.job.placement))
			c.job.uncounted = true
		}
	}
	for i := range changes {
		c := &changes[i]
		if len(c.requested) > 0 && !e.takenByOthers(c) {
			c.on, c.speed = e.checkFit(c.job, c.requested, c.gpus, "allocate")
			e.takePlace(c)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.gpus > 0 && c.on == nil {
			e.findPlace(c)
			e.takePlace(c)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.on != nil {
			e.free.release(c.on, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, -len(c.on))
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.job.phase == Running {
			e.free.allocate(c.job.placement, c.job.facts.Share)
			c.job.account.adjustHeld(c.job, len(c.job.placement))
			c.job.uncounted = false
		}
	}
}

// takenByOthers reports whether a job cannot have its requested placement for a reason that is not
// the policy's fault: a job that is not preemptible yet has the GPUs, or fills the user's cap.
func (e *Engine) takenByOthers(c *resize) bool {
	_, err := e.checkPlacement(c.job, c.requested, c.gpus)
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrQuota)
}

// findPlace asks the Placer for a place for a resized job; failing that, the job keeps its GPUs if
// they are free.
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

// takePlace allocates the placement that was found.
func (e *Engine) takePlace(c *resize) {
	if c.on != nil {
		e.free.allocate(c.on, c.job.facts.Share)
		c.job.account.adjustHeld(c.job, len(c.on))
	}
}
