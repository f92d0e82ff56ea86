package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/internal/words"
)

// giveWay has a running launch give its places back: it is saved and stopped, or, if it cannot be
// saved but may be restarted, stopped. One that can do neither keeps its places.
func (l *Leader) giveWay(e *entry, on launch.Occasion, event launch.Event) error {
	if e.State.Phase != launch.Running {
		return l.apply(e, event)
	}
	problem := e.cannotSave(on)
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

// mover moves launches to other nodes while they run. A launch is saved, and its image copied to
// the other node, again and again until little changes between two saves. Then it is saved once
// more, stopped, and goes on there.
type mover struct{ *Leader }

// course is how far a move is, for this leader.
type course struct {
	// asked is when a save was asked for last; zero: not by this leader.
	asked   time.Time
	rounds  int
	written uint64        // by the last save
	stopped time.Duration // the boot time since which it stands still
}

// Limits of moves.
const (
	// maxRounds is how often a launch is saved while it runs, smallRest what need not be copied before
	// it is stopped.
	maxRounds = 5
	smallRest = 64 << 20
	// moveWait is how long a stopped launch waits for the node to which it moves.
	moveWait = 20 * time.Second
	// askAgain is after how long without news a save is asked for again: an agent may have died.
	askAgain = 2 * time.Minute
)

// begin begins to move a launch to a node, or to any.
func (m mover) begin(e *entry, to, by string) error {
	replica := slices.IndexFunc(e.State.Replicas, func(r launch.Replica) bool { return r.Live && r.Started })
	switch problem := e.cannotSave(launch.OnDrain); {
	case e.State.Phase != launch.Running || replica < 0:
		return fmt.Errorf("%w: launch %s is %s, and does not run yet or any longer", launch.ErrRefused, e.Label(), e.State.Phase)
	case e.MoveTo != "":
		return fmt.Errorf("%w: launch %s moves to node %s already", launch.ErrRefused, e.Label(), e.MoveTo)
	case problem != nil:
		return fmt.Errorf("launch %s: %w", e.Label(), problem)
	}
	target, err := m.target(e, replica, to)
	if err != nil {
		return err
	}
	e.MoveTo, e.course = target, course{}
	m.event(e, "moves", fmt.Sprintf("to node %s, for %s", target, by))
	if e.State.Spec.Checkpoint.Directory != "" {
		m.stop(e) // the node can read the image
		return nil
	}
	m.askSave(e)
	return nil
}

// askSave has a launch saved that runs on.
func (m mover) askSave(e *entry) {
	e.Asked++
	e.course.asked = m.clock.Wall()
	m.changed(e)
}

// target returns the node to which a replica moves, which has room for it now.
func (m mover) target(e *entry, replica int, to string) (string, error) {
	need := fit.NeedOf(e.ID, &e.State, []int{replica})
	from := m.nodes[e.State.Replicas[replica].Node]
	var problems []string
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if to != anyNode && to != name || m.nodes[name] == from {
			continue
		}
		problem := m.nodes[name].cannotTake(&need, m.comingTo(name))
		if problem == "" && e.State.Spec.Checkpoint.Directory == "" && (from == nil || !from.sharesImages()) {
			problem = "it cannot fetch from node " + e.State.Replicas[replica].Node
		}
		if problem == "" {
			return name, nil
		}
		problems = append(problems, "node "+name+": "+problem)
	}
	switch {
	case to == anyNode && len(problems) == 0:
		return "", fmt.Errorf("%w: there is no other node", launch.ErrRefused)
	case from != nil && to == from.Name:
		return "", fmt.Errorf("%w: launch %s runs on node %s already", launch.ErrRefused, e.Label(), to)
	case len(problems) == 0:
		return "", fmt.Errorf("%w: no node is called %.100q", api.ErrNotFound, to)
	}
	return "", fmt.Errorf("%w: launch %s cannot move: %s", launch.ErrRefused, e.Label(), words.ClipTo(strings.Join(problems, "; "), 500))
}

// anyNode is the name that means any node.
const anyNode = "any"

// comingTo returns how many GPUs of a node launches need that move there.
func (m mover) comingTo(node string) (gpus int) {
	for _, e := range m.launches {
		if e.MoveTo == node && e.State.Phase != launch.Ended {
			for i := range e.State.Replicas {
				gpus += len(e.State.Replicas[i].GPUs)
			}
		}
	}
	return gpus
}

// cannotTake says why a node has no room for a replica now, beside other GPUs that are needed
// there; empty: it has.
func (n *node) cannotTake(need *fit.Need, coming int) string {
	t, r := n.tableNode(), &need.Replicas[0]
	switch {
	case !n.open:
		return "it is not ready, or cordoned"
	case !t.Allowed(need.Place):
		return "the launch may not run there"
	case !t.Takes(need, r, fit.Taken{}):
		return "it has too few free CPUs, or too little free memory"
	case !n.sharesImages():
		return "its agent fetches no images"
	}
	free := -coming
	for _, gpu := range n.Inventory.GPUs {
		taken := false
		for _, live := range n.live {
			taken = taken || slices.Contains(live.gpus, gpu.Index)
		}
		if !taken && gpu.Foreign == 0 && gpu.Bad == "" && r.Takes(gpu.Name, gpu.MemoryBytes) {
			free++
		}
	}
	if free < r.GPUs {
		return fmt.Sprintf("%d of the %d GPUs that it needs are free", max(0, free), r.GPUs)
	}
	return ""
}

// copied goes on with a move when its node has an image.
func (m mover) copied(e *entry, n *node, image *record.Image) {
	r := &e.State.Replicas[image.Replica]
	newest := e.NewestOf(image.Replica, func(*record.Image) bool { return true })
	if e.MoveTo != n.Name || e.State.Phase != launch.Running || image.Attempt != r.Attempt {
		return
	}
	m.event(e, "copied", fmt.Sprintf("generation %d is on node %s", image.Generation, n.Name))
	c := &e.course
	c.rounds++
	if newest != image && c.rounds < maxRounds {
		return // it is being copied
	}
	shrinks := c.rounds == 1 || image.WrittenBytes < c.written/4*3
	if c.written = image.WrittenBytes; c.rounds < maxRounds && shrinks && image.WrittenBytes > smallRest {
		m.askSave(e)
		return
	}
	m.stop(e)
}

// stop saves a launch for the last time before it moves.
func (m mover) stop(e *entry) {
	err := m.giveWay(e, launch.OnDrain, launch.Preempted{Reason: "moves to node " + e.MoveTo})
	if err != nil {
		m.abandon(e, err.Error())
	}
}

// arrived ends a move when the launch runs on its node.
func (m mover) arrived(e *entry, n *node) {
	if e.MoveTo != n.Name {
		return
	}
	text := "to node " + n.Name
	if e.course.stopped > 0 {
		text += fmt.Sprintf(": stood still for %v", (m.clock.Boot() - e.course.stopped).Round(time.Millisecond))
	}
	e.MoveTo = ""
	m.event(e, "moved", text)
}

// abandon ends a move that has failed. The launch runs on, or goes on where there is room.
func (m mover) abandon(e *entry, problem string) {
	if e.MoveTo == "" {
		return
	}
	to := e.MoveTo
	e.MoveTo = ""
	m.event(e, "not moved", "to node "+to+": "+problem)
	m.syncParts(e)
	for i := range e.State.Replicas {
		r := &e.State.Replicas[i]
		if n := m.nodes[r.Node]; r.Live && n != nil && n.Draining && e.State.Phase == launch.Running && !e.State.Cutting {
			m.leave(e, n)
		}
	}
}

// leave has a launch leave a node that is drained, without a node to go to.
func (m mover) leave(e *entry, n *node) {
	err := m.giveWay(e, launch.OnDrain, launch.Preempted{Reason: "node " + n.Name + " is drained"})
	if err != nil {
		m.event(e, "not drained", err.Error())
		m.nodeEvent(n, "not drained", err.Error())
	}
}

// copies reports whether the node of a move is fetching an image.
func (m mover) copies(e *entry) bool {
	return slices.ContainsFunc(e.Images, func(i record.Image) bool { return m.Leader.copies.Ordered(e.MoveTo, i.Name()) })
}

// notStarted ends a move to a node on which a launch could not be started. It goes on elsewhere.
func (m mover) notStarted(e *entry, r *api.Report) {
	problem := "it was not started there"
	for _, exit := range messages.ExitsOf(r.GetExits()) {
		problem = exit.String()
	}
	m.mustApply(e, launch.ReplicaLost{Replica: int(r.GetReplica()), Attempt: int(r.GetAttempt()), Reason: problem})
	m.abandon(e, problem)
}

// look ends moves that cannot succeed any longer.
func (m mover) look(e *entry, now time.Time) {
	to := m.nodes[e.MoveTo]
	switch {
	case e.MoveTo == "":
	case e.State.Phase == launch.Ended || e.State.Phase == launch.Suspended:
		m.abandon(e, "the launch is "+string(e.State.Phase))
	case e.isLiveOn(e.MoveTo): // it is being started there
	case to == nil || to.Gone || to.Cordoned || to.Draining ||
		!to.open && m.clock.Boot()-to.renewed > m.settings.Times.Lease: // to a new leader it may not be attached yet
		m.abandon(e, "the node is not ready any longer, or cordoned")
	case e.State.Phase == launch.Running && !e.State.Cutting && now.Sub(e.course.asked) > askAgain && !m.copies(e):
		m.askSave(e)
	case e.State.Phase == launch.Queued && now.Sub(e.Queued) > moveWait:
		m.abandon(e, fmt.Sprintf("it has had no room for %v", moveWait))
	}
}
