package control

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/meeting"
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
		problem = cutter{l}.cannotCut(e)
	}
	if problem == nil && e.MoveTo == "" {
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
	if e.State.Spec.SavedTogether() > 0 {
		e.cut.tries, e.cut.wanted = 0, false
		cutter{l}.begin(e)
	}
	return nil
}

// cannotSave says why a launch is not saved on an occasion; nil: it is.
func (e *entry) cannotSave(on launch.Occasion) error {
	if !e.State.Spec.Checkpoint.Saves(on) {
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
		if n == holder || !n.sharesImages() {
			continue
		}
		if t := n.tableNode(); t.Allowed(place) {
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
	if e.State.Spec.SavedTogether() > 0 {
		cutter{l}.saved(e, r)
		return
	}
	replica := int(r.GetReplica())
	image := order.ImageOf(r, e.State.Replicas[replica].GPUs)
	fresh, fixed := image != nil && e.Image(image.Name()) == nil, e.fixed()
	if fresh {
		e.AddImage(*image)
		l.imaged[e] = struct{}{}
		e.Saved, e.SaveProblem = image.At, ""
		l.event(e, "saved", e.replicaOn(replica, image.Node)+imageText(image))
		switch {
		case e.MoveTo == "":
		case !image.Shared && len(image.Key) == 0:
			mover{l}.abandon(e, "node "+image.Node+" has no key by which another node knows the image")
		default:
			l.then(func() { library{l}.copy() })
		}
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
		e.course.stopped = l.clock.Boot() - image.Pause
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
	problem, asked := r.GetSaveError(), int(r.GetAsked()) > e.answered
	e.answered = max(e.answered, int(r.GetAsked()))
	if problem == "" {
		return
	}
	ordered := e.State.Cutting && int(r.GetSave()) == e.Saves
	if ordered || asked || problem != e.SaveProblem {
		e.SaveProblem = problem
		replica := int(r.GetReplica())
		l.event(e, "not saved", e.replicaOn(replica, e.State.Replicas[replica].Node)+": "+problem)
		mover{l}.abandon(e, problem)
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

// cutter has all replicas of a launch saved in one cut.
type cutter struct{ *Leader }

// cut is what this leader knows of the cuts of a launch.
type cut struct {
	// meeting is the one that is being taken, or was taken last; nil: this leader knows of none.
	meeting *meeting.Meeting
	// images are its parts, by replica.
	images map[int]*record.Image
	// asked is when a cut was last asked for after which the launch runs on.
	asked time.Time
	// tries counts cuts that have failed because replicas were apart.
	tries int
	// wanted means that one is to be asked for, once all replicas run.
	wanted bool
}

// maxCutTries is how often a cut is tried again by itself.
const maxCutTries = 3

// cannotCut says why the replicas of a launch cannot be saved in one cut; nil: they can, as far as
// their nodes say.
func (c cutter) cannotCut(e *entry) error {
	for i := range e.State.Replicas {
		r := &e.State.Replicas[i]
		n := c.nodes[r.Node]
		if e.State.Spec.SavedTogether() > 0 && r.Live && n != nil && !n.Inventory.SavesTogether && n.Inventory.PhosdError == "" {
			return fmt.Errorf("%w: the agent or phosd of node %s is of an older version, and saves no part of a cut",
				launch.ErrRefused, r.Node)
		}
	}
	return nil
}

// cutParts returns the replicas that are saved in a cut. All means that each of them runs.
func (e *entry) cutParts() (parts []int, all bool) {
	all = true
	for i := range e.State.Replicas {
		if r := &e.State.Replicas[i]; r.Live && !r.Leaving {
			parts = append(parts, i)
			all = all && r.Started
		}
	}
	return parts, all
}

// cutNumber names the cut that is wanted now, or was wanted last.
func (e *entry) cutNumber() meeting.Number {
	if e.State.Cutting {
		return meeting.Number{Number: e.Saves, Stops: true}
	}
	return meeting.Number{Number: e.Asked}
}

// cutting reports whether a cut is being taken, as far as this leader knows.
func (e *entry) cutting() bool {
	return e.cut.meeting != nil && e.cut.meeting.Number == e.cutNumber() && e.cut.meeting.Open()
}

// errOtherCut is what a save is told that is no longer wanted.
var errOtherCut = errors.New("another save has taken its place")

// begin begins the cut that is wanted now, unless it is known. One before it is given up.
func (c cutter) begin(e *entry) *meeting.Meeting {
	number := e.cutNumber()
	if m := e.cut.meeting; m == nil || m.Number != number {
		c.giveUp(e, errOtherCut)
		parts, _ := e.cutParts()
		e.Cuts++
		c.changed(e)
		e.cut.meeting, e.cut.images = meeting.New(number, parts), map[int]*record.Image{}
	}
	return e.cut.meeting
}

// giveUp ends the cut that is being taken, if one is.
func (c cutter) giveUp(e *entry, why error) {
	if m := e.cut.meeting; m != nil && m.Open() {
		v, tell := m.Fail(why)
		c.tell(e, v, tell)
	}
}

// saved notes what an agent says of a part of a cut.
func (c cutter) saved(e *entry, r *api.Report) {
	replica, fixed := int(r.GetReplica()), e.fixed()
	switch said := r.GetArrival(); {
	case said != nil:
		c.arrived(e, replica, said)
	case r.GetSaveError() != "" && c.answers(e, r):
		c.notCut(e, r)
	case r.GetSaveError() == "" && e.State.Phase == launch.Running && r.GetImage() != nil &&
		int(r.GetAsked()) == e.Asked && e.Asked > 0:
		c.keep(e, replica, order.ImageOf(r, e.State.Replicas[replica].GPUs))
	}
	if fixed != e.fixed() {
		c.keepPlaces(e)
	}
}

// answers reports whether a report is about the cut that is wanted now.
func (c cutter) answers(e *entry, r *api.Report) bool {
	if e.State.Cutting {
		return int(r.GetSave()) == e.Saves
	}
	return int(r.GetAsked()) == e.Asked && e.Asked > e.answered
}

// notCut notes that a part could not be saved: there is no cut. The leader itself may have said so
// before, or the agent that has begun the save has ended: then a new cut may succeed.
func (c cutter) notCut(e *entry, r *api.Report) {
	replica := int(r.GetReplica())
	m := c.begin(e)
	switch open := m.Open(); {
	case !r.GetUndone() && open:
		c.giveUp(e, fmt.Errorf("%s: %s", e.replicaOn(replica, e.State.Replicas[replica].Node), r.GetSaveError()))
		c.notSaved(e, r)
	case !r.GetUndone():
		e.answered = max(e.answered, int(r.GetAsked()))
	case open:
		why := fmt.Errorf("%w: %s: %s", meeting.ErrApart, e.replicaOn(replica, e.State.Replicas[replica].Node), r.GetSaveError())
		c.giveUp(e, why)
		c.again(e, why)
	}
}

// arrived notes that the save of a replica waits for the others.
func (c cutter) arrived(e *entry, replica int, said *api.CutArrival) {
	number := meeting.Number{Number: int(said.GetNumber()), Stops: said.GetStop()}
	switch known := e.cut.meeting; {
	case number.Stops && e.State.Ending:
		return // the order to end is on its way
	case number != e.cutNumber() || number.Number == 0 || e.State.Phase != launch.Running && !e.State.Cutting,
		known != nil && known.Number == number && !known.Open() && known.Failed() == nil: // it is complete
		c.verdict(e, replica, number, meeting.Verdict{Step: int(said.GetStep()), Failed: errOtherCut})
		return
	}
	m := c.begin(e)
	if said.GetImage() != nil {
		e.cut.images[replica] = order.ImageOf(&api.Report{Image: said.GetImage(), ImageKey: said.GetImageKey()},
			e.State.Replicas[replica].GPUs)
	}
	open := m.Open()
	v, tell := m.Arrive(replica, meeting.Arrival{Step: int(said.GetStep()), Point: said.GetPoint(), Busy: said.GetBusy()})
	if v.Failed == nil && len(tell) > 0 && said.GetPoint() == meeting.PointComplete {
		err := c.complete(e, func(images map[int]string) launch.Event { return launch.CutTaken{Images: images} })
		if err == nil {
			return
		}
		v.Failed = err
	}
	c.tell(e, v, tell)
	if open && errors.Is(m.Failed(), meeting.ErrApart) {
		c.again(e, m.Failed())
	}
}

// keep notes the image of a replica that runs on: all have been at the point cut, also if an
// earlier leader has told this part alone. With the last image the cut is complete.
func (c cutter) keep(e *entry, replica int, image *record.Image) {
	if e.Image(image.Name()) != nil {
		return // it is said again
	}
	m := c.begin(e)
	if !m.Open() || !slices.Contains(m.Parts, replica) {
		return
	}
	v, tell := m.Passed(meeting.PointCut)
	c.tell(e, v, tell)
	if !m.Open() {
		c.again(e, m.Failed())
		return
	}
	e.cut.images[replica] = image
	if len(e.cut.images) == len(m.Parts) {
		_ = c.complete(e, func(images map[int]string) launch.Event { return launch.Checkpointed{Images: images} })
	}
}

// complete makes the images of all replicas the launch's cut. It fails if they are not all there:
// then there is no cut.
func (c cutter) complete(e *entry, event func(map[int]string) launch.Event) error {
	names := map[int]string{}
	for replica, image := range e.cut.images {
		names[replica] = image.Name()
	}
	if _, err := e.State.Apply(event(names)); err != nil { // replicas have come or gone
		c.giveUp(e, err)
		c.again(e, err)
		return err
	}
	e.cut.meeting.Complete()
	var longest time.Duration
	var bytes, written uint64
	for _, replica := range e.cut.meeting.Parts {
		image := e.cut.images[replica]
		image.Cut = e.Cuts
		e.AddImage(*image)
		e.Saved = image.At
		longest, bytes, written = max(longest, image.Pause), bytes+image.Bytes, written+image.WrittenBytes
	}
	c.imaged[e] = struct{}{}
	e.SaveProblem, e.cut.tries = "", 0
	e.answered = max(e.answered, e.Asked)
	c.event(e, "saved", fmt.Sprintf("%d replicas in one cut: paused %v, %d MiB, wrote %d MiB",
		len(names), longest.Round(time.Millisecond/10), bytes>>20, written>>20))
	c.mustApply(e, event(names))
	c.then(func() { library(c).copy() })
	return nil
}

// tell tells some parts of a cut how it goes on.
func (c cutter) tell(e *entry, v meeting.Verdict, parts []int) {
	number := e.cut.meeting.Number
	for _, replica := range parts {
		c.verdict(e, replica, number, v)
	}
}

// verdict tells the save of a replica how its cut goes on, once the leader's decisions so far are
// in the store.
func (c cutter) verdict(e *entry, replica int, number meeting.Number, v meeting.Verdict) {
	r := &e.State.Replicas[replica]
	node := r.Node
	message := &api.CutVerdict{
		Attempt: &api.Attempt{Launch: e.ID, Replica: uint32(replica), Attempt: uint32(r.Attempt)},
		Number:  uint32(number.Number), Stop: number.Stops, Step: uint32(v.Step), Again: v.Again,
	}
	if v.Failed != nil {
		message.Failed = v.Failed.Error()
	}
	c.then(func() {
		if n := c.nodes[node]; n != nil && n.session != nil {
			n.session.Orders(&api.Orders{Epoch: uint64(c.Epoch()), Verdicts: []*api.CutVerdict{message}})
		}
	})
}

// again orders a cut once more that has failed through no fault of any part.
func (c cutter) again(e *entry, why error) {
	e.cut.tries++
	more := e.cut.tries <= maxCutTries
	switch {
	case e.State.Cutting && more:
		e.Saves++
		c.event(e, "save ordered", "again: "+why.Error())
	case e.State.Cutting:
		// A replica may be about to be noted as lost: not in the middle of that.
		c.turns.Add(func() {
			c.mustApply(e, launch.SaveFailed{Problem: why.Error()})
			c.keepPlaces(e)
		})
	case e.State.Phase == launch.Running && more:
		e.cut.wanted = true
	case e.State.Phase == launch.Running:
		e.cut.tries = 0
		c.event(e, "not saved", why.Error())
	}
}

// partChanged notes that a replica has got processes, or has none any longer. A cut without it, or
// that waits for it, is given up.
func (c cutter) partChanged(e *entry, replica int, what string) {
	if !e.cutting() {
		return
	}
	why := fmt.Errorf("%w: %s %s", meeting.ErrApart, e.replicaOn(replica, e.State.Replicas[replica].Node), what)
	c.giveUp(e, why)
	c.again(e, why)
}

// look has a launch saved when its next cut is due, or was wanted when not all replicas ran.
func (c cutter) look(e *entry, now time.Time) {
	if e.State.Phase != launch.Running || e.State.Spec.SavedTogether() == 0 || e.cutting() || c.cannotCut(e) != nil {
		return
	}
	parts, all := e.cutParts()
	if !all || len(parts) == 0 {
		return
	}
	every := time.Duration(e.State.Spec.Checkpoint.Every)
	last := e.Saved
	for _, at := range []time.Time{e.Placed, e.cut.asked} {
		if last.Before(at) {
			last = at
		}
	}
	if e.cut.wanted || every > 0 && now.Sub(last) >= every {
		c.ask(e)
	}
}

// ask has a launch saved that runs on, once all its replicas run.
func (c cutter) ask(e *entry) {
	if _, all := e.cutParts(); !all || e.cutting() {
		e.cut.wanted = true
		return
	}
	e.cut.wanted = false
	e.Asked++
	e.cut.asked = c.clock.Wall()
	c.changed(e)
	c.begin(e)
}
