package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/cluster/store"
)

// entry is a launch that the leader knows.
type entry struct {
	record.Launch
	revision store.Revision
	// told is what agents were told to do, by the state that is in the store.
	told []launch.Order
	// toldAsked is the number of asked saves that they know, toldSaves that of ordered ones.
	toldAsked, toldSaves int
	// answered is the number of the last asked save that was made or has failed.
	answered int
	// course is how far a move is, cut what is known of cuts.
	course course
	cut    cut
	// preparing is what agents do to start replicas.
	preparing map[int]string
	// cutOf has, by replica, the attempt whose image its node was told to be the first that is needed.
	cutOf map[int]int
	// kept means that the scheduler wanted to preempt it, but it can be neither saved nor restarted.
	kept bool
	// parts are what the scheduler places at once, by their number.
	parts map[int]*part
}

// apply changes a launch by an event, and everything that depends on its state.
func (l *Leader) apply(e *entry, event launch.Event) error {
	next, err := e.State.Apply(event)
	if err != nil {
		return fmt.Errorf("launch %s: %w", e.Label(), err)
	}
	before := e.State
	e.State = next
	l.noteReplicas(e, before)
	l.notePhase(e, before)
	l.changed(e)
	l.syncParts(e)
	if next.Phase == launch.Ended && before.Phase != launch.Ended {
		l.dependents(e)
	}
	return nil
}

// changed marks a launch for the store.
func (l *Leader) changed(e *entry) { l.changedLaunches[e] = struct{}{} }

// event notes something in the launch's own log.
func (l *Leader) event(e *entry, kind, text string) {
	e.AddEvent(record.Event{At: l.clock.Wall(), Epoch: int64(l.Epoch()), Kind: kind, Text: text})
	l.changed(e)
}

// noteReplicas notes which replicas have got processes, and which have lost them.
func (l *Leader) noteReplicas(e *entry, before launch.State) {
	now := l.clock.Wall()
	for i := range e.State.Replicas {
		was, is := &before.Replicas[i], &e.State.Replicas[i]
		if was.Live && (!is.Live || is.Attempt != was.Attempt) {
			e.CloseSpan(i, was.Attempt, now)
			l.vacate(e, i, was.Node)
			text := endText(is)
			if before.Ending || before.Cutting && e.State.Cut[i] != "" && e.State.Cut[i] != before.Cut[i] {
				text = "saved"
			}
			cutter{l}.partChanged(e, i, "has ended")
			l.event(e, "ended", e.replicaOn(i, was.Node)+": "+text)
		}
		if is.Live && is.Attempt != was.Attempt {
			l.occupy(e, i)
			e.OpenSpan(record.Span{Replica: i, Attempt: is.Attempt, Node: is.Node, From: now})
			cutter{l}.partChanged(e, i, "joins")
			l.event(e, "placed", e.replicaOn(i, is.Node)+gpusText(is.GPUs)+e.originText(is))
		}
		if is.Live && is.Started && !was.Started {
			l.event(e, "running", e.replicaOn(i, is.Node))
			if origin := e.originText(is); origin != "" {
				l.event(e, "restored", e.replicaOn(i, is.Node)+origin)
			}
		}
	}
}

// endText says how the last attempt of a replica has ended.
func endText(r *launch.Replica) string {
	for _, exit := range r.Exits {
		if !exit.OK() && !exit.Stopped {
			return fmt.Sprintf("process %d %s", exit.Process, exit)
		}
	}
	if r.Done {
		return "done"
	}
	return "stopped"
}

// gpusText names GPUs for people.
func gpusText(gpus []int) string {
	switch len(gpus) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(", GPU %d", gpus[0])
	}
	return fmt.Sprintf(", GPUs %v", gpus)
}

// replicaOn names a replica and its node for people: job.index on node.
func (e *entry) replicaOn(replica int, node string) string {
	r := &e.State.Replicas[replica]
	return fmt.Sprintf("%s.%d on %s", e.State.Spec.Jobs[r.Job].Name, r.Index, node)
}

// notePhase notes the times of a launch.
func (l *Leader) notePhase(e *entry, before launch.State) {
	is := e.State.Phase
	if is == before.Phase {
		return
	}
	now := l.clock.Wall()
	switch is {
	case launch.Queued:
		e.Queued = now
	case launch.Running:
		if e.Started.IsZero() {
			e.Started = now
		}
		if before.Phase != launch.Stopping { // a save that failed
			e.Placed = now
			e.Runs++
			l.settings.Numbers.Waited(max(0, now.Sub(e.Queued)))
		}
	case launch.Ended:
		e.Ended = now
	case launch.Waiting, launch.Stopping, launch.Suspended:
	}
	if before.Phase == launch.Stopping && is != launch.Running {
		e.RanBefore += max(0, now.Sub(e.Placed))
	}
	l.event(e, string(is), phaseText(&e.State))
}

// phaseText says why a launch is in its phase.
func phaseText(s *launch.State) string {
	switch {
	case s.Phase == launch.Ended && s.Reason == "":
		return string(s.Result)
	case s.Phase == launch.Ended:
		return string(s.Result) + ": " + s.Reason
	}
	return s.Reason
}

// published tells the agents what the state that is now in the store asks of them, and the
// watchers.
func (l *Leader) published(e *entry) {
	orders := e.State.Orders()
	for _, old := range e.told {
		if n := l.nodes[old.Node]; n != nil && !slices.ContainsFunc(orders, old.SameAttempt) {
			l.release(n, e.ID, old.Replica, old.Attempt)
		}
	}
	for _, order := range orders {
		knows := slices.ContainsFunc(e.told, order.Equal) && (e.toldAsked == e.Asked || order.Do != launch.Run) &&
			(e.toldSaves == e.Saves || order.Do != launch.Save)
		if n := l.nodes[order.Node]; n != nil && n.session != nil && !knows {
			n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Orders: []*api.Order{l.orders().Order(&e.Launch, order)}})
		}
	}
	if e.State.Phase == launch.Ended && e.State.Result == launch.Completed && len(e.Images) > 0 {
		l.endedOn(e)
	}
	l.tellCut(e)
	e.told, e.toldAsked, e.toldSaves = orders, e.Asked, e.Saves
	for w := range l.watchers {
		w.Changed(&e.Launch)
	}
}

// running returns for how long a launch has run.
func (e *entry) running(now time.Time) time.Duration {
	if e.State.Phase != launch.Running {
		return e.RanBefore
	}
	return e.RanBefore + max(0, now.Sub(e.Placed))
}
