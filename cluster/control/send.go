package control

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control/order"
	"github.com/phos-gpu/phos/cluster/control/session"
)

// orders returns what makes this leader's orders.
func (l *Leader) orders() order.Maker {
	return order.Maker{Epoch: l.Epoch(), Grace: l.settings.Times.Grace, Address: func(node string) string {
		if n := l.nodes[node]; n != nil {
			return n.Address
		}
		return ""
	}, Images: func(node string) string {
		if n := l.nodes[node]; n != nil && n.sharesImages() {
			return net.JoinHostPort(n.Address, strconv.Itoa(n.Inventory.ImagesPort))
		}
		return ""
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
