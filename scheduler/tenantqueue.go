package scheduler

import (
	"cmp"
	"slices"
)

// lane is a queue for admission.
type lane struct {
	held   []*Job
	asking bool
}

// hold puts a new job in its lane.
func (e *Engine) hold(j *Job) {
	name := ""
	if laner, ok := e.policies.Admit.(Laner); ok {
		name = ask(e, "admit", func() string { return laner.Lane(j) })
	}
	l := e.lanes[name]
	if l == nil {
		l = &lane{}
		e.lanes[name] = l
	}
	j.lane = l
	l.held = append(l.held, j)
	e.consult(l)
}

func (e *Engine) unhold(j *Job) {
	i := slices.Index(j.lane.held, j)
	j.lane.held = slices.Delete(j.lane.held, i, i+1)
	e.consult(j.lane)
}

// consult has the admitter asked for a lane's first job in this step.
func (e *Engine) consult(l *lane) {
	if !l.asking && len(l.held) > 0 {
		l.asking = true
		e.asking = append(e.asking, l)
	}
}

// consultAll is for when the cluster has changed. The lanes' order must not come from a map.
func (e *Engine) consultAll() {
	var lanes []*lane
	for _, l := range e.lanes {
		if len(l.held) > 0 {
			lanes = append(lanes, l)
		}
	}
	slices.SortFunc(lanes, func(a, b *lane) int { return int(a.held[0].ID() - b.held[0].ID()) })
	for _, l := range lanes {
		e.consult(l)
	}
}

// Held are the jobs that wait for admission, by submission.
func (e *Engine) Held() []*Job {
	var held []*Job
	for _, l := range e.lanes {
		held = append(held, l.held...)
	}
	slices.SortFunc(held, func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.facts.Submit, b.facts.Submit), cmp.Compare(a.facts.ID, b.facts.ID))
	})
	return held
}

// letIn lets jobs in.
func (e *Engine) letIn() {
	for _, l := range e.asking {
		l.asking = false
		for len(l.held) > 0 {
			j := l.held[0]
			if e.policies.Admit != nil && !ask(e, "admit", func() bool { return e.policies.Admit.Admit(e, j) }) {
				break
			}
			l.held[0] = nil
			l.held = l.held[1:]
			e.admit(j)
		}
	}
	e.asking = e.asking[:0]
}

func (e *Engine) admit(j *Job) {
	j.phase = Waiting
	e.waiting++
	e.demand += j.GPUs()
	j.account.wait(+1)
	j.account.ask(j.GPUs())
	j.group = e.groupOf(j)
	e.rerank(j)
	e.regroup(j)
}
