package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/why"
)

// forecastSteps is how far ahead an estimate looks.
const forecastSteps = 10_000

// explain adds what the scheduler says of why a job waits, and when it starts by the owners'
// estimates.
func (q *queue) explain(ctx context.Context, id cluster.JobID, reply *api.WhyReply) error {
	if !q.gpus {
		return nil // it would speak of GPUs; blockers has said what is missing
	}
	policies, err := q.leader.settings.Policies()
	if err != nil {
		return err
	}
	policies.Place = q.placer.Copy()
	var answer *why.Answer
	var future *why.Future
	err = q.loop.Do(ctx, func(e *scheduler.Engine) {
		if answer, err = why.Explain(e, id); err == nil {
			future, err = why.Ahead(e, id, policies)
		}
	})
	if err != nil || answer == nil {
		return ignoreUnknown(err)
	}
	reply.Reasons = append(reply.Reasons, answer.Text()...)
	if future == nil {
		return nil
	}
	forecast := future.Start(forecastSteps)
	reply.Reasons = append(reply.Reasons, forecast.Text(answer.Now))
	if forecast.Known {
		reply.EstimateUnixMs = q.leader.clock.Began.Add(forecast.At).UnixMilli()
	}
	return nil
}

// ignoreUnknown drops the error that the scheduler does not know a job: it has just been placed, or
// waits for more nodes.
func ignoreUnknown(err error) error {
	if errors.Is(err, scheduler.ErrUnknownJob) {
		return nil
	}
	return err
}

// blockers says, in one sentence for each, why nodes cannot take a part of a launch now, besides
// GPUs that launches have.
func (l *Leader) blockers(p *part) (reasons []string) {
	if p.tooLarge {
		waits := "; it waits for more"
		if p.entry.State.Spec.Queue == launch.Refuse {
			waits = ""
		}
		reasons = append(reasons, "all nodes together are too small for it"+waits+": the cluster has "+l.has())
	}
	want := p.need()
	counts, foreign := map[string]int{}, []string(nil)
	for _, name := range slices.Sorted(maps.Keys(l.nodes)) {
		n := l.nodes[name]
		if reason := l.blocker(n, &want); reason != "" {
			counts[reason]++
		} else {
			foreign = append(foreign, n.foreignUse(&want)...)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		reasons = append(reasons, fmt.Sprintf("%d of %d nodes: %s", counts[reason], len(l.nodes), reason))
	}
	if len(l.nodes) == 0 {
		reasons = append(reasons, "no node has joined")
	}
	if more := len(foreign) - maxForeignReasons; more > 0 {
		foreign = append(foreign[:maxForeignReasons], fmt.Sprintf("%d more GPUs are used by processes of no launch", more))
	}
	return append(reasons, foreign...)
}

// maxForeignReasons is how many GPUs an explanation names because something foreign uses them.
const maxForeignReasons = 5

// foreignUse names the GPUs of a node that a part cannot have because something foreign uses them.
func (n *node) foreignUse(want *fit.Need) (reasons []string) {
	for _, g := range n.Inventory.GPUs {
		takes := func(r fit.Replica) bool { return r.GPUs > 0 && r.Takes(g.Name, g.MemoryBytes) }
		if g.Foreign > 0 && slices.ContainsFunc(want.Replicas, takes) {
			use := &api.GPU{Foreign: uint32(g.Foreign), ForeignProcesses: n.foreign[g.Index]}
			reasons = append(reasons, fmt.Sprintf("GPU %d of node %s: %s", g.Index, n.Name, messages.ForeignUse(use)))
		}
	}
	return reasons
}

// blocker says why a node cannot take any replica of a part now; empty: it could, but for GPUs that
// are taken.
func (l *Leader) blocker(n *node, want *fit.Need) string {
	t := n.tableNode()
	open := t
	open.Open = true
	switch {
	case !t.Allowed(want.Place):
		return "not where the launch may run"
	case len(want.Replicas) == 1 && !reaches(&t, &want.Replicas[0], l.nodes):
		return fmt.Sprintf("its image is on the disk of node %s, and cannot be fetched from there", strings.Join(want.Replicas[0].Nodes, ", "))
	case want.OwnNetwork && !t.Networks:
		return "its agent is of an older version, and makes no networks of launches"
	case n.Cordoned || n.Draining:
		return "cordoned"
	case !t.Open:
		return string(l.state(n)) + " since " + l.seen(n).Format(time.TimeOnly)
	}
	for i := range want.Replicas {
		if open.Takes(want, &want.Replicas[i], fit.Taken{}) {
			return ""
		}
	}
	if open.Exclusive != "" || want.Place.WholeNodes && len(t.Launches) > 0 {
		return "a launch wants the whole node"
	}
	return "too few free CPUs, or too little free memory"
}

// reasons says what the leader itself knows of why a launch waits.
func (l *Leader) reasons(e *entry) (reasons []string) {
	switch e.State.Phase {
	case launch.Waiting:
		for _, id := range e.State.Spec.After {
			if other := l.launches[id]; other != nil && other.State.Phase != launch.Ended {
				reasons = append(reasons, fmt.Sprintf("it comes after launch %s, which is %s", other.Label(), other.State.Phase))
			}
		}
	case launch.Queued, launch.Running:
		reasons = append(reasons, l.startingReasons(e)...)
	case launch.Stopping:
		reasons = append(reasons, "its processes are being stopped: "+e.State.Reason)
	case launch.Suspended:
		reasons = append(reasons, e.State.Reason+"; phos resume "+e.Label()+" queues it")
	case launch.Ended:
		reasons = append(reasons, phaseText(&e.State))
	}
	return reasons
}

// startingReasons says what holds up replicas that have a place.
func (l *Leader) startingReasons(e *entry) (reasons []string) {
	for _, p := range e.parts {
		if p.starting {
			reasons = append(reasons, "its place is known and becomes free when the launch that has it has stopped")
		}
	}
	for i := range e.State.Replicas {
		if r := &e.State.Replicas[i]; r.Live && !r.Started {
			text := e.preparing[i]
			if text == "" {
				text = "starting"
			}
			reasons = append(reasons, e.replicaOn(i, r.Node)+": "+text)
		}
	}
	if len(reasons) == 0 && e.State.Phase == launch.Running {
		reasons = append(reasons, "it runs")
	}
	return reasons
}

// stepped logs a step of the scheduler, and has launches ended that refuse to wait: those whose job
// came, or lost its place, in this step, and was not started. A job that is too large for all nodes
// is handled by reconsider, because a node may just have come. The scheduler's loop calls stepped
// before the leader gets the plan.
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
			if id = e.Facts.ID; q.loop.Engine.Job(id) == nil {
				continue
			}
		case scheduler.Refused:
			id = e.Job
		default:
			continue
		}
		if !q.placer.RefusesToWait(id) || slices.ContainsFunc(plan.Starts, func(s scheduler.Start) bool { return s.Job == id }) {
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
		return nil // it has ended meanwhile
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
