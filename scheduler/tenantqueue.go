package scheduler

import (
	"cmp"
	"slices"
)

// tenantQueue holds the jobs of a tenant that wait for admission. Without a TenantAdmitter there is
// one queue.
type tenantQueue struct {
	held    []*Job
	pending bool
}

// enqueueHeld adds a new job to its tenant's queue.
func (e *Engine) enqueueHeld(j *Job) {
	name := ""
	if laner, ok := e.policies.Admit.(TenantAdmitter); ok {
		name = callPolicy(e, "admit", func() string { return laner.Tenant(j) })
	}
	l := e.tenantQueues[name]
	if l == nil {
		l = &tenantQueue{}
		e.tenantQueues[name] = l
	}
	j.tenantQueue = l
	l.held = append(l.held, j)
	e.requestAdmission(l)
}

// dequeueHeld removes a job from its tenant's queue.
func (e *Engine) dequeueHeld(j *Job) {
	i := slices.Index(j.tenantQueue.held, j)
	j.tenantQueue.held = slices.Delete(j.tenantQueue.held, i, i+1)
	e.requestAdmission(j.tenantQueue)
}

// requestAdmission lets the admitter decide about a queue's first job in this step.
func (e *Engine) requestAdmission(l *tenantQueue) {
	if !l.pending && len(l.held) > 0 {
		l.pending = true
		e.admitting = append(e.admitting, l)
	}
}

// requestAllAdmissions is called when the cluster has changed. The order of the queues must not
// depend on map iteration.
func (e *Engine) requestAllAdmissions() {
	var lanes []*tenantQueue
	for _, l := range e.tenantQueues {
		if len(l.held) > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b *tenantQueue) int { return int(a.held[0].ID() - b.held[0].ID()) })
	for _, l := range lanes {
		e.requestAdmission(l)
	}
}

// Held returns the jobs that wait for admission, by submission.
func (e *Engine) Held() []*Job {
	var held []*Job
	for _, l := range e.tenantQueues {
		held = append(held, l.held...)
	}
	slices.SortFunc(held, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	return held
}

// admitHeld asks the admitter about each pending queue, and admits jobs until it refuses one.
func (e *Engine) admitHeld() {
	for _, l := range e.admitting {
		l.pending = false
		for len(l.held) > 0 {
			j := l.held[0]
			if e.policies.Admit != nil && !callPolicy(e, "admit", func() bool { return e.policies.Admit.Admit(e, j) }) {
				break
			}
			l.held[0] = nil
			l.held = l.held[1:]
			e.admit(j)
		}
	}
	e.admitting = e.admitting[:0]
}

// admit puts a job in the queue of its group.
func (e *Engine) admit(j *Job) {
	j.phase = Waiting
	e.waiting++
	e.demand += j.GPUs()
	j.account.countWaiting(+1)
	j.account.addDemand(j.GPUs())
	j.group = e.groupOf(j)
	e.rerank(j)
	e.regroup(j)
}
