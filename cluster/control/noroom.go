package control

import (
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/why"
)

// stepped logs a step of the scheduler, and looks at it for jobs that do not wait: one that was new
// to it, or whose place could not be taken, and that it has not started, has no room now. It is
// called by the scheduler's loop, before the leader is handed the plan.
func (q *queue) stepped(now time.Duration, events []scheduler.Event, plan scheduler.Plan, stepErr error) error {
	if q.log != nil {
		if err := q.log.Step(now, events, plan, stepErr); err != nil {
			return err
		}
	}
	for _, e := range events {
		var id cluster.JobID
		switch e.Kind {
		case scheduler.Submitted:
			id = e.Facts.ID
		case scheduler.Refused:
			id = e.Job
		default:
			continue
		}
		if !q.placer.Refused(id) || slices.ContainsFunc(plan.Starts, func(s scheduler.Start) bool { return s.Job == id }) {
			continue
		}
		reasons := q.explanation(id)
		q.leader.turns.Add(func() { q.leader.noRoom(q, id, reasons) })
	}
	return nil
}

// explanation says why a job was not started. It is called by the scheduler's loop.
func (q *queue) explanation(id cluster.JobID) []string {
	if !q.gpus {
		return nil // it would speak of GPUs
	}
	answer, err := why.Explain(q.loop.Engine, id)
	if err != nil {
		return nil // it is larger than all nodes, which blockers says
	}
	return answer.Text()
}

// noRoom ends a launch that does not wait, if the scheduler has no place for it.
func (l *Leader) noRoom(q *queue, id cluster.JobID, reasons []string) {
	p := q.parts[id]
	if p == nil || p.assigned != nil {
		return
	}
	missing := append(l.blockers(p), reasons...)
	if len(missing) == 0 {
		missing = []string{"the nodes are taken"}
	}
	l.mustApply(p.entry, launch.NoRoom{Missing: strings.Join(missing, "; ")})
}
