package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/control/session"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/messages"
)

// ErrNodeUnknown is returned to an agent whose node is not one of the cluster's.
var ErrNodeUnknown = errors.New("the cluster does not know this node: it was removed; join it again")

// errReplaced ends the stream of an agent when the same node attaches again.
var errReplaced = errors.New("the node has attached again")

// Attach begins to lead the agent of a node, and returns the session of its stream.
func (l *Leader) Attach(ctx context.Context, name, key string, hello *api.Hello) (*session.Session, error) {
	s := session.New()
	return s, l.ask(ctx, func() error { return l.attach(name, key, hello, s) })
}

// Detach notes that a stream has ended. The node's lease runs on.
func (l *Leader) Detach(name string, s *session.Session) {
	l.turns.Add(func() { l.detach(name, s) })
}

// Receive handles a message of an agent. It reports false if this controller no longer leads.
func (l *Leader) Receive(name string, s *session.Session, message *api.FromAgent) bool {
	if asked := message.GetRenewal(); asked != nil {
		return l.renewals.Add(renewal{name, s, asked.GetNumber()})
	}
	return l.turns.Add(func() { l.receive(name, s, message) })
}

// attach begins to lead an agent. Its first messages follow once what the agent said is in the
// store.
func (l *Leader) attach(name, key string, hello *api.Hello, s *session.Session) error {
	n := l.nodes[name]
	if n == nil || n.Key != key {
		return fmt.Errorf("%w: %q", ErrNodeUnknown, name)
	}
	if n.session != nil {
		n.session.End(errReplaced)
		l.disconnected(n)
	}
	rebooted := n.BootID != "" && n.BootID != hello.GetBootId()
	if rebooted {
		l.nodeEvent(n, "rebooted", "")
		l.setOpen(n, false)
		l.loseProcesses(n)
	}
	n.renewed, n.trusts = l.clock.Boot(), nil
	if n.Gone {
		n.Gone = false
		l.nodeEvent(n, "back", "")
	}
	l.noteHello(n, hello)
	for _, report := range hello.GetHeld() {
		l.report(n, report)
	}
	l.then(func() { l.welcome(n, s) })
	return nil
}

// noteHello notes what an agent says of its node.
func (l *Leader) noteHello(n *node, hello *api.Hello) {
	if n.Version != hello.GetVersion() || n.BootID != hello.GetBootId() {
		l.nodeEvent(n, "attached", fmt.Sprintf("agent %s at %s", hello.GetVersion(), hello.GetAddress()))
	}
	if n.Address != hello.GetAddress() {
		l.changedNodes[n] = struct{}{}
		l.tableChanged(n)
	}
	n.BootID, n.Version, n.Address = hello.GetBootId(), hello.GetVersion(), hello.GetAddress()
	l.inventory(n, hello.GetInventory())
	if !n.introduced {
		l.introduce(n)
	}
}

// welcome makes the stream the node's, and sends all orders.
func (l *Leader) welcome(n *node, s *session.Session) {
	n.session = s
	l.copies.Forget(n.Name)
	times := l.settings.Times
	s.Send(&api.ToAgent{Message: &api.ToAgent_Welcome{Welcome: &api.Welcome{
		Epoch: uint64(l.Epoch()), LeaseMs: uint64(times.Lease.Milliseconds()),
		FenceAfterMs: uint64(times.FenceAfter.Milliseconds()),
	}}})
	s.Orders(&api.Orders{
		Epoch: uint64(l.Epoch()), Complete: true, Orders: l.ordersFor(n), Kept: l.keptImages(), Copies: &api.Copies{},
	})
	l.lookAtLease(n)
}

// detach forgets a session, unless another one has replaced it.
func (l *Leader) detach(name string, s *session.Session) {
	if n := l.nodes[name]; n != nil && n.session == s {
		l.disconnected(n)
		l.lookAtLease(n)
	}
}

// disconnected notes that a node's session has ended. Its agent answers nothing more.
func (l *Leader) disconnected(n *node) {
	n.session = nil
	l.questions.EndOf(n.Name)
}

// receive handles a message of an agent.
func (l *Leader) receive(name string, s *session.Session, message *api.FromAgent) {
	n := l.nodes[name]
	if n == nil || n.session != s {
		return
	}
	switch m := message.GetMessage().(type) {
	case *api.FromAgent_Report:
		l.report(n, m.Report)
	case *api.FromAgent_Inventory:
		l.inventory(n, m.Inventory)
	case *api.FromAgent_Trusts:
		n.trusts = m.Trusts
	case *api.FromAgent_Leave:
		l.nodeEvent(n, "leaves", m.Leave.GetReason())
		s.End(nil)
		l.disconnected(n)
		l.lookAtLease(n)
	}
}

// renewal is what an agent asks for while its session lasts.
type renewal struct {
	node    string
	session *session.Session
	number  uint64
}

// renewAll extends the leases of the nodes whose agents have asked for it. It changes no record, so
// it may run while the store takes none: then what runs goes on, however long that lasts.
func (l *Leader) renewAll() {
	for _, r := range l.renewals.Take() {
		if n := l.nodes[r.node]; n != nil && n.session == r.session {
			l.renew(n, r.number)
		}
	}
}

// renew extends the lease of a node. It is not answered by a leader that may have been replaced:
// the next one gives the node up FenceAfter after its own beginning, which is not before Until.
func (l *Leader) renew(n *node, number uint64) {
	now := l.clock.Boot()
	if now >= l.leadership.Until() {
		return
	}
	if l.state(n) != ready {
		l.turns.Add(func() { l.lookAtLease(n) })
	}
	n.renewed = now
	n.session.Send(&api.ToAgent{Message: &api.ToAgent_Renewed{Renewed: &api.Renewed{
		Number: number, Epoch: uint64(l.Epoch()),
	}}})
}

// report notes what an agent says of an attempt. What is no longer wanted is released.
func (l *Leader) report(n *node, r *api.Report) {
	if r.GetCopied() != nil {
		library{l}.copied(n, r)
		return
	}
	e := l.launches[r.GetLaunch()]
	replica, attempt := int(r.GetReplica()), int(r.GetAttempt())
	if e == nil || !e.isLive(replica, attempt, n.Name) {
		l.then(func() { l.release(n, r.GetLaunch(), replica, attempt) })
		return
	}
	l.saved(e, r)
	if !e.isLive(replica, attempt, n.Name) {
		l.then(func() { l.release(n, r.GetLaunch(), replica, attempt) })
		return
	}
	switch {
	case r.GetState() == "running" && !e.State.Replicas[replica].Started:
		l.mustApply(e, launch.ReplicaStarted{Replica: replica, Attempt: attempt})
		library{l}.started(e, replica, n)
		mover{l}.arrived(e, n)
	case r.GetState() == "ended" && r.GetFenced():
		l.mustApply(e, launch.ReplicaLost{
			Replica: replica, Attempt: attempt, Reason: "node " + n.Name + " was cut off, and has stopped its processes",
		})
	case r.GetState() == "ended" && r.GetUnstarted():
		l.mustApply(e, launch.ReplicaLost{
			Replica: replica, Attempt: attempt, Reason: cmp.Or(r.GetUnstartedReason(), e.State.Reason),
		})
	case r.GetState() == "ended" && e.MoveTo == n.Name && !e.State.Replicas[replica].Started:
		mover{l}.notStarted(e, r)
	case r.GetState() == "ended":
		l.mustApply(e, launch.ReplicaEnded{Replica: replica, Attempt: attempt, Exits: messages.ExitsOf(r.GetExits())})
	case r.GetState() == "preparing":
		e.progress(replica, r.GetProgress())
	}
}

// isLive reports whether an attempt has processes on a node, by the launch's state.
func (e *entry) isLive(replica, attempt int, name string) bool {
	if replica >= len(e.State.Replicas) {
		return false
	}
	r := &e.State.Replicas[replica]
	return r.Live && r.Attempt == attempt && r.Node == name
}

// progress notes what an agent does to start a replica. It is not kept in the store.
func (e *entry) progress(replica int, text string) {
	if e.preparing == nil {
		e.preparing = map[int]string{}
	}
	e.preparing[replica] = text
}

// orders returns what makes this leader's orders.
func (l *Leader) orders() order.Maker {
	return order.Maker{Epoch: l.Epoch(), Grace: l.settings.Times.Grace, Networks: l.settings.Networks, Address: func(node string) string {
		if n := l.nodes[node]; n != nil {
			return n.Address
		}
		return ""
	}, Images: func(node string) (address, key string) {
		if n := l.nodes[node]; n != nil && n.sharesImages() {
			return net.JoinHostPort(n.Address, strconv.Itoa(n.Inventory.ImagesPort)), n.Key
		}
		return "", ""
	}}
}

// ordersFor returns all that shall be on a node, by what is in the store.
func (l *Leader) ordersFor(n *node) (orders []*api.Order) {
	m := l.orders()
	for _, e := range n.entries() {
		for _, o := range e.told {
			if o.Node == n.Name {
				orders = append(orders, m.Order(&e.Launch, o))
			}
		}
	}
	slices.SortFunc(orders, func(a, b *api.Order) int { return compareAttempts(a.GetAttempt(), b.GetAttempt()) })
	return orders
}

// compareAttempts orders attempts by launch and replica.
func compareAttempts(a, b *api.Attempt) int {
	if a.GetLaunch() != b.GetLaunch() {
		if a.GetLaunch() < b.GetLaunch() {
			return -1
		}
		return 1
	}
	return int(a.GetReplica()) - int(b.GetReplica())
}

// release tells an agent that an attempt is no longer wanted: what is left of it may go.
func (l *Leader) release(n *node, launchID string, replica, attempt int) {
	if n.session == nil {
		return
	}
	n.session.Orders(&api.Orders{
		Epoch:    uint64(l.Epoch()),
		Released: []*api.Attempt{{Launch: launchID, Replica: uint32(replica), Attempt: uint32(attempt)}},
	})
}

// Questions returns the questions to agents that are not answered yet.
func (l *Leader) Questions() *session.Questions { return l.questions }

// AskNode sends a question to a node. Answers of a node arrive until the context ends.
func (l *Leader) AskNode(ctx context.Context, node string, ask *api.Ask) (*session.Question, error) {
	q, err := l.questions.Add(node)
	if err != nil {
		return nil, err
	}
	ask.Question = q.Number
	err = l.ask(ctx, func() error {
		if !l.sendAsk(node, ask) {
			return session.ErrNodeSilent
		}
		return nil
	})
	if err != nil {
		l.questions.Finish(q, err)
		return nil, err
	}
	context.AfterFunc(ctx, func() {
		l.questions.Finish(q, ctx.Err())
		l.turns.Add(func() { l.sendAsk(node, &api.Ask{Question: q.Number, Cancel: true}) })
	})
	return q, nil
}

// sendAsk sends a question to a node, if it is connected.
func (l *Leader) sendAsk(node string, ask *api.Ask) (sent bool) {
	n := l.nodes[node]
	if n == nil || n.session == nil {
		return false
	}
	n.session.Send(&api.ToAgent{Message: &api.ToAgent_Ask{Ask: ask}})
	return true
}
