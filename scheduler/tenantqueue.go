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

// tenantQueueOf returns the queue of a job's tenant, which it may have to create.
func (e *Engine) tenantQueueOf(j *Job) *tenantQueue {
	name := ""
	if admitter, ok := e.policies.Admit.(TenantAdmitter); ok {
		name = callPolicy(e, "admit", func() string { return admitter.Tenant(j) })
	}
	q := e.tenantQueues[name]
	if q == nil {
		q = &tenantQueue{}
		e.tenantQueues[name] = q
	}
	return q
}

// enqueueHeld adds a new job to its tenant's queue.
func (e *Engine) enqueueHeld(j *Job) {
	j.tenantQueue = e.tenantQueueOf(j)
	j.tenantQueue.held = append(j.tenantQueue.held, j)
	e.requestAdmission(j.tenantQueue)
}

// sortLast moves the last job to its place by submission: it was adopted.
func (q *tenantQueue) sortLast() {
	for i := len(q.held) - 1; i > 0 && submittedBefore(q.held[i], q.held[i-1]); i-- {
		q.held[i-1], q.held[i] = q.held[i], q.held[i-1]
	}
}

// submittedBefore reports whether a job was submitted before another one.
func submittedBefore(a, b *Job) bool {
	return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID)) < 0
}

// dequeueHeld removes a job from its tenant's queue.
func (e *Engine) dequeueHeld(j *Job) {
	i := slices.Index(j.tenantQueue.held, j)
	j.tenantQueue.held = slices.Delete(j.tenantQueue.held, i, i+1)
	e.requestAdmission(j.tenantQueue)
}

// requestAdmission lets the admitter decide about a queue's first job in this step.
func (e *Engine) requestAdmission(q *tenantQueue) {
	if !q.pending && len(q.held) > 0 {
		q.pending = true
		e.admitting = append(e.admitting, q)
	}
}

// requestAllAdmissions is called when the cluster has changed. The order of the queues must not
// depend on map iteration.
func (e *Engine) requestAllAdmissions() {
	var queues []*tenantQueue
	for _, q := range e.tenantQueues {
		if len(q.held) > 0 {
			queues = append(queues, q)
		}
	}
	slices.SortFunc(queues, func(a, b *tenantQueue) int { return int(a.held[0].ID() - b.held[0].ID()) })
	for _, q := range queues {
		e.requestAdmission(q)
	}
}

// Held returns the jobs that wait for admission, by submission.
func (e *Engine) Held() []*Job {
	var held []*Job
	for _, q := range e.tenantQueues {
		held = append(held, q.held...)
	}
	slices.SortFunc(held, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	return held
}

// admitHeld asks the admitter about each pending queue, and admits jobs until it refuses one.
func (e *Engine) admitHeld() {
	for _, q := range e.admitting {
		q.pending = false
		for len(q.held) > 0 {
			j := q.held[0]
			if e.policies.Admit != nil && !callPolicy(e, "admit", func() bool { return e.policies.Admit.Admit(e, j) }) {
				break
			}
			q.held[0] = nil
			q.held = q.held[1:]
			e.admit(j)
		}
	}
	e.admitting = e.admitting[:0]
}

// admit puts a job in the queue of its group.
func (e *Engine) admit(j *Job) {
	if e.observer != nil {
		e.observer.Admitted(j)
	}
	e.join(j)
	e.wait(j)
}

// join lets a job count as admitted.
func (e *Engine) join(j *Job) {
	e.demand += j.GPUs()
	j.account.addDemand(j.GPUs())
	j.group = e.groupOf(j)
}

// wait makes a job without GPUs a waiting one.
func (e *Engine) wait(j *Job) {
	j.phase = Waiting
	e.waiting++
	j.account.countWaiting(+1)
	e.rerank(j)
	e.regroup(j)
}
