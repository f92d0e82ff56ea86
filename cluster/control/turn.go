package control

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
	"github.com/phos-gpu/phos/internal/words"
)

// Turn is what a request may look at and change, in the leader's goroutine. Neither a turn nor a
// launch of it may be kept.
type Turn struct{ leader *Leader }

// Ask makes a turn, and returns its error once its changes are in the store.
func (l *Leader) Ask(ctx context.Context, turn func(Turn) error) error {
	return l.ask(ctx, func() error { return turn(Turn{l}) })
}

// ClusterID returns the id of the cluster.
func (t Turn) ClusterID() string { return t.leader.cluster.ID }

// Find returns a launch by its id, its number, or the name of the newest one that is called so; nil
// if there is none.
func (t Turn) Find(text string) *record.Launch {
	if e := t.leader.find(text); e != nil {
		return &e.Launch
	}
	return nil
}

// Launches returns all launches, in any order.
func (t Turn) Launches() iter.Seq[*record.Launch] {
	return func(yield func(*record.Launch) bool) {
		for _, e := range t.leader.launches {
			if !yield(&e.Launch) {
				return
			}
		}
	}
}

// Feasible returns an error if the cluster could not run a launch even if it were empty, or if it
// is more than the quota of its account allows.
func (t Turn) Feasible(s Submission) error {
	_, err := t.leader.admissible(s)
	return err
}

// Members returns the replicas of a launch that have places.
func (t Turn) Members(of *record.Launch) *api.MembersReply { return t.leader.orders().Members(of) }

// MayFetch allows that a node fetches an image of a launch from another one.
func (t Turn) MayFetch(of *record.Launch, from string, asked *api.MayFetchRequest) (*api.MayFetchReply, error) {
	n := t.leader.nodes[asked.GetNode()]
	if n == nil || n.Key != asked.GetKey() {
		return nil, notLent(of, asked)
	}
	reply := order.MayFetch(of, from, asked, func(i *record.Image) bool { return t.leader.copies.Ordered(n.Name, i.Name()) })
	switch {
	case reply != nil:
		return reply, nil
	case n.sharesImages() && order.Lent(of, from, asked) != nil:
		return nil, fmt.Errorf("%w: it is not decided yet whether node %s gets a copy", api.ErrUnavailable, n.Name)
	}
	return nil, notLent(of, asked)
}

// notLent refuses an image to a node.
func notLent(of *record.Launch, asked *api.MayFetchRequest) error {
	return fmt.Errorf("%w: node %.100q starts nothing from generation %d of attempt %d of launch %s",
		api.ErrNotPermitted, asked.GetNode(), asked.GetGeneration(), asked.GetAttempt().GetAttempt(), of.ID)
}

// Risk says why an image may be lost; empty: a node that can be counted on has it.
func (t Turn) Risk(i *record.Image) string {
	if i.Shared {
		return ""
	}
	var states []string
	for _, name := range i.Holders() {
		n := t.leader.nodes[name]
		switch {
		case n == nil:
			states = append(states, name+", which was removed")
		case t.leader.state(n) != ready:
			states = append(states, fmt.Sprintf("%s, which is %s", name, t.leader.state(n)))
		case n.Draining:
			states = append(states, name+", which is drained")
		default:
			return ""
		}
	}
	return "it is only on node " + strings.Join(states, ", and on ")
}

// HasNodes reports whether a node has joined.
func (t Turn) HasNodes() bool { return len(t.leader.nodes) > 0 }

// Create queues a launch, or one for each combination of an array's parameters.
func (t Turn) Create(s Submission) (created []*record.Launch, err error) {
	entries, err := t.leader.create(s)
	for _, e := range entries {
		created = append(created, &e.Launch)
	}
	return created, err
}

// Act applies what a user asks for to a launch. A suspended launch gives its places back.
func (t Turn) Act(to *record.Launch, event launch.Event) error {
	e := t.leader.launches[to.ID]
	if _, suspends := event.(launch.SuspendRequested); suspends {
		return t.leader.giveWay(e, launch.OnSuspend, event)
	}
	return t.leader.apply(e, event)
}

// Checkpoint has a launch saved that runs on.
func (t Turn) Checkpoint(of *record.Launch, by string) error {
	e := t.leader.launches[of.ID]
	if e.State.Phase != launch.Running {
		return fmt.Errorf("%w: launch %s is %s", launch.ErrRefused, e.Label(), e.State.Phase)
	}
	if err := (cutter{t.leader}).cannotCut(e); err != nil {
		return fmt.Errorf("launch %s: %w", e.Label(), err)
	}
	cutter{t.leader}.ask(e)
	t.leader.event(e, "save asked", "by "+by)
	return nil
}

// Migrate moves a launch to a node, or to any other one, while it runs.
func (t Turn) Migrate(of *record.Launch, to, by string) error {
	return mover{t.leader}.begin(t.leader.launches[of.ID], to, by)
}

// Note adds an event to those of a launch.
func (t Turn) Note(to *record.Launch, kind, text string) {
	t.leader.event(t.leader.launches[to.ID], kind, text)
}

// Reasons says why a launch waits, as far as the leader knows it. If the scheduler knows more, ask
// adds that to the reply; it is called after the turn.
func (t Turn) Reasons(of *record.Launch) (reasons []string, ask func(context.Context, *api.WhyReply) error) {
	e := t.leader.launches[of.ID]
	reasons = t.leader.reasons(e)
	for _, p := range e.parts {
		if _, held := t.leader.quotas.held[p]; held {
			reasons = append(reasons, t.leader.heldReason(p))
		} else if p.assigned == nil {
			reasons = append(reasons, t.leader.blockers(p)...)
			id, q := p.id, p.queue
			ask = func(ctx context.Context, reply *api.WhyReply) error { return q.explain(ctx, id, reply) }
		}
	}
	return reasons, ask
}

// ChangeNode labels, cordons or drains a node.
func (t Turn) ChangeNode(by string, request *api.ChangeNodeRequest) error {
	n, err := t.leader.node(request.GetName())
	if err != nil {
		return err
	}
	return t.leader.changeNode(n, by, request)
}

// RemoveNode forgets a node. With force, the caller says that the machine is off.
func (t Turn) RemoveNode(name, by string, force bool) error {
	n, err := t.leader.node(name)
	if err != nil {
		return err
	}
	if len(n.live) > 0 && !force {
		return fmt.Errorf("%w: launches run on node %s: drain it first, or say with --force that the machine is off",
			api.ErrRefused, n.Name)
	}
	if only := (library{t.leader}).onlyOn(n); len(only) > 0 && !force {
		return fmt.Errorf("%w: the disk of node %s alone has images from which launches go on: %s; drain it first and wait until "+
			"they are copied or run elsewhere (phos checkpoints), or say with --force that they start from their beginning",
			api.ErrRefused, n.Name, words.Clip(strings.Join(only, ", ")))
	}
	t.leader.removeNode(n, by)
	return nil
}

// Watcher is told of each change of a launch or node, once the store has it, by the leader's
// goroutine. It must not wait, nor keep the launch or node.
type Watcher interface {
	Changed(*record.Launch)
	NodeChanged(*record.Node)
	// End says why no more changes come.
	End(error)
}

// Watch tells a watcher of all changes from now on.
func (t Turn) Watch(w Watcher) { t.leader.watchers[w] = struct{}{} }

// Unwatch ends that.
func (l *Leader) Unwatch(w Watcher) { l.turns.Add(func() { delete(l.watchers, w) }) }
