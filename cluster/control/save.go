package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/fit"
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
		if n := nodes[r.Node]; r.Live && (n == nil || !n.sharesImages()) {
			return fmt.Errorf("%w: its images are on the disk of node %s, from which no other node fetches them",
				launch.ErrRefused, r.Node)
		}
	}
	return nil
}

// sharesImages reports whether other nodes fetch images from a node, and it from them.
func (n *node) sharesImages() bool { return n.Inventory.ImagesPort != 0 && n.Address != "" && !n.Gone }

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

// boundTo returns the image from which a replica that waits for a place will start; nil: from its
// beginning.
func (e *entry) boundTo(replica int) *record.Image {
	return e.Image(e.State.Cut[replica])
}

// bind notes where replicas have to be placed because of their images.
func (e *entry) bind(n *fit.Need) {
	for i := range n.Replicas {
		r := &n.Replicas[i]
		image := e.boundTo(r.Number)
		if image == nil {
			continue
		}
		r.HadGPUs = image.GPUs
		if !image.Shared {
			r.Node = image.Node
		}
	}
}

// binding names the images from which some replicas will start.
func (e *entry) binding(replicas []int) (text string) {
	for _, i := range replicas {
		if image := e.boundTo(i); image != nil {
			text += image.Name() + "\n"
		}
	}
	return text
}

// loseImages drops the images of a launch that are on the disk of a node, from which it can no
// longer go on.
func (l *Leader) loseImages(e *entry, name string) {
	for i := range e.State.Replicas {
		image := e.boundTo(i)
		if image == nil || image.Shared || image.Node != name {
			continue
		}
		l.event(e, "image lost", fmt.Sprintf(
			"generation %d in %s is on the disk of node %s, which is gone: it starts from its beginning",
			image.Generation, image.Dir, name))
		l.mustApply(e, launch.ImagesLost{})
		e.Saved = time.Time{}
		return
	}
}

// endedOn tells the nodes on which a launch has run that it has completed: its images may go.
func (l *Leader) endedOn(e *entry) {
	ended := &api.EndedLaunch{Launch: e.ID, Owner: e.Owner, SharedDir: e.State.Spec.Checkpoint.Directory}
	for _, n := range e.connected(l.nodes) {
		n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Ended: []*api.EndedLaunch{ended}})
	}
}

// connected returns the nodes on which a launch has run whose agents are connected.
func (e *entry) connected(nodes map[string]*node) (found []*node) {
	for _, span := range e.Spans {
		n := nodes[span.Node]
		if n != nil && n.session != nil && !slices.Contains(found, n) {
			found = append(found, n)
		}
	}
	return found
}

// tellCut tells nodes which images of a launch the store has, so that they remove those of earlier
// attempts. A node that does not hear of one image hears of the next.
func (l *Leader) tellCut(e *entry) {
	for i := range e.State.Replicas {
		image := e.boundTo(i)
		if image == nil || image.Attempt <= max(1, e.cutOf[i]) {
			continue
		}
		if n := l.nodes[image.Node]; n == nil || n.session == nil {
			continue
		}
		if e.cutOf == nil {
			e.cutOf = map[int]int{}
		}
		e.cutOf[i] = image.Attempt
		for _, n := range e.connected(l.nodes) { // some may have fetched earlier ones
			n.session.Orders(&api.Orders{Epoch: uint64(l.Epoch()), Saved: []*api.NewImage{{
				Attempt: &api.Attempt{Launch: e.ID, Replica: uint32(i), Attempt: uint32(image.Attempt)},
				Owner:   e.Owner, SharedDir: e.State.Spec.Checkpoint.Directory,
			}}})
		}
	}
}

// keptImages are the launches whose images nodes keep: those that may still go on from them, and
// failed and stopped ones as long as the cluster remembers them.
func (l *Leader) keptImages() (ids []string) {
	for e := range l.imaged {
		if e.State.Phase != launch.Ended || e.State.Result != launch.Completed {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
