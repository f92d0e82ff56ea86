package control

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// giveWay has a running launch give its places back: it is saved and stopped, or, if it cannot be
// saved but may be restarted, stopped. One that can do neither keeps its places.
func (l *Leader) giveWay(e *entry, on launch.Occasion, event launch.Event) error {
	if e.State.Phase != launch.Running {
		return l.apply(e, event)
	}
	problem := e.cannotSave(on)
	if problem == nil {
		problem = e.staysWithImage(l.nodes, on)
	}
	if problem != nil && !e.State.Spec.Restartable {
		return fmt.Errorf("launch %s: %w, and it is not restartable", e.Label(), problem)
	}
	if err := l.apply(e, event); err != nil {
		return err
	}
	if !e.State.Cutting {
		return nil
	}
	if problem != nil {
		l.mustApply(e, launch.SaveFailed{Problem: problem.Error()})
		return nil
	}
	e.Saves++
	l.event(e, "save ordered", e.State.Reason)
	return nil
}

// cannotSave says why a launch is not saved on an occasion; nil: it is.
func (e *entry) cannotSave(on launch.Occasion) error {
	spec := &e.State.Spec
	if err := spec.CheckSavable(); err != nil {
		return err
	}
	if !spec.Checkpoint.Saves(on) {
		return fmt.Errorf("%w: its checkpoint.on has no %q", launch.ErrRefused, on)
	}
	return nil
}

// staysWithImage says why a launch that may be restarted is not saved on a drain: its image would
// be on a node from which no other one fetches it, and it would wait for that node.
func (e *entry) staysWithImage(nodes map[string]*node, on launch.Occasion) error {
	spec := &e.State.Spec
	if on != launch.OnDrain || !spec.Restartable || spec.Checkpoint.Directory != "" {
		return nil
	}
	for i := range e.State.Replicas {
		r := &e.State.Replicas[i]
		if r.Live && !isFetched(nodes, r.Node, spec.Place) {
			return fmt.Errorf("%w: its images are on the disk of node %s, from which no other node fetches them",
				launch.ErrRefused, r.Node)
		}
	}
	return nil
}

// isFetched reports whether some other node on which a launch may run fetches images from one.
func isFetched(nodes map[string]*node, from string, place launch.Place) bool {
	holder := nodes[from]
	if holder == nil || !holder.sharesImages() {
		return false
	}
	for _, n := range nodes {
		if t := n.tableNode(); n != holder && n.sharesImages() && t.Allowed(place) {
			return true
		}
	}
	return false
}

// sharesImages reports whether other nodes fetch images from a node, and it from them.
func (n *node) sharesImages() bool {
	return n.Inventory.ImagesPort != 0 && n.Address != "" && n.reachable
}

// fixed reports whether a launch keeps its places until it ends, so that no policy may preempt it:
// it can be neither saved nor started again, or its last save has failed.
func (e *entry) fixed() bool {
	return !e.State.Spec.Restartable && (e.kept || e.SaveProblem != "" || e.cannotSave(launch.OnPreempt) != nil)
}

// saved notes what an agent says of the images of an attempt that is live.
func (l *Leader) saved(e *entry, r *api.Report) {
	replica := int(r.GetReplica())
	image := order.ImageOf(r, e.State.Replicas[replica].GPUs)
	fresh, fixed := image != nil && e.Image(image.Name()) == nil, e.fixed()
	if fresh {
		e.AddImage(*image)
		l.imaged[e] = struct{}{}
		e.Saved, e.SaveProblem = image.At, ""
		l.event(e, "saved", e.replicaOn(replica, image.Node)+imageText(image))
	}
	switch {
	case r.GetSaved() && image != nil:
		l.endedBySave(e, r, image)
	case fresh:
		l.mustApply(e, launch.Checkpointed{Images: map[int]string{replica: image.Name()}})
	}
	l.notSaved(e, r)
	if fixed != e.fixed() {
		l.keepPlaces(e)
	}
}

// endedBySave notes that a save has ended an attempt, whatever was wanted of it in the meantime.
func (l *Leader) endedBySave(e *entry, r *api.Report, image *record.Image) {
	replica, attempt := int(r.GetReplica()), int(r.GetAttempt())
	images := map[int]string{replica: image.Name()}
	switch {
	case e.State.Cutting:
		l.mustApply(e, launch.Saved{Images: images})
	case e.State.Phase == launch.Stopping:
		l.mustApply(e, launch.ReplicaEnded{Replica: replica, Attempt: attempt})
	default:
		l.mustApply(e, launch.Checkpointed{Images: images})
		l.mustApply(e, launch.ReplicaLost{Replica: replica, Attempt: attempt, Reason: "it was saved and stopped"})
	}
}

// notSaved notes that a save has failed. If it was ordered, a restartable launch is stopped and
// queued again. Any other launch runs on.
func (l *Leader) notSaved(e *entry, r *api.Report) {
	problem := r.GetSaveError()
	if problem == "" {
		return
	}
	ordered := e.State.Cutting && int(r.GetSave()) == e.Saves
	if ordered || problem != e.SaveProblem {
		e.SaveProblem = problem
		replica := int(r.GetReplica())
		l.event(e, "not saved", e.replicaOn(replica, e.State.Replicas[replica].Node)+": "+problem)
	}
	if ordered {
		l.mustApply(e, launch.SaveFailed{Problem: problem})
		l.keepPlaces(e)
	}
}

// keepPlaces tells the scheduler that a launch runs on which it has stopped, or which it may stop
// from now on, or may not.
func (l *Leader) keepPlaces(e *entry) {
	if e.State.Phase != launch.Running {
		return
	}
	for number := range e.parts {
		l.drop(e, number)
	}
	e.parts = e.liveParts()
	for _, p := range e.parts {
		p.queue = l.queueFor(e)
		p.queue.adopt(p)
	}
	l.syncParts(e)
}

// imageText describes an image for people, beginning with its node.
func imageText(i *record.Image) string {
	return fmt.Sprintf(", generation %d in %s: paused %v, %d MiB, wrote %d MiB",
		i.Generation, i.Dir, i.Pause.Round(time.Millisecond/10), i.Bytes>>20, i.WrittenBytes>>20)
}

// originText says from which image a replica goes on; empty: it begins.
func (e *entry) originText(r *launch.Replica) string {
	image := e.Image(r.Image)
	if image == nil {
		return ""
	}
	return fmt.Sprintf(", from generation %d in %s, saved on %s at %s",
		image.Generation, image.Dir, image.Node, image.At.Format(time.TimeOnly))
}
