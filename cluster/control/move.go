package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/fit"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/internal/words"
)

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
	case e.State.Spec.SavedTogether() > 0:
		return fmt.Errorf("%w: launch %s has several replicas; drain the node that some of them shall leave, "+
			"or suspend and resume the launch", launch.ErrRefused, e.Label())
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
