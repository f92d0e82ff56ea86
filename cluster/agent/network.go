package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/agent/overlay"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
)

// whereabouts are where the replicas of a launch with a network of its own are now, by the last
// order.
type whereabouts struct {
	mu     sync.Mutex // while it is applied
	latest *api.Order // guarded by attempt.mu
}

// join makes the network namespace of an attempt, if its launch has a network of its own. No packet
// passes before the attempt runs.
func (t *attempt) join(ctx context.Context, spec *supervisor.Spec, order *api.Order) error {
	if order.GetNetwork() == nil {
		return nil
	}
	a := t.set.agent
	if _, err := os.Stat(a.path("attempts", t.key.String())); err == nil {
		return nil // it runs already, and is adopted
	}
	owner, err := a.lookUp(order.GetOwner())
	if err != nil {
		return err
	}
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	network, err := overlay.Read(t.latest(order))
	if err != nil {
		return err
	}
	spec.Link = network.Link()
	spec.Network, err = a.networks.Join(ctx, network, owner.rights(), t.key.String())
	if err != nil {
		return errors.Join(err, a.networks.Leave(spec.Link, t.key.String()))
	}
	return nil
}

// latest returns the last order that the attempt has got.
func (t *attempt) latest(first *api.Order) *api.Order {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.place.latest == nil {
		return first
	}
	return t.place.latest
}

// link returns the node's end of the attempt's link; empty: it has none.
func (t *attempt) link() string {
	started := t.started()
	if started == nil {
		return ""
	}
	spec, err := started.Spec()
	if err != nil {
		return ""
	}
	return spec.Link
}

// connect lets packets through to the attempt, or holds them back.
func (t *attempt) connect(through bool) error {
	link := t.link()
	if link == "" {
		return nil
	}
	return overlay.Connect(link, t.key.String(), through)
}

// reconnect lets packets through again.
func (t *attempt) reconnect() {
	if err := t.connect(true); err != nil {
		t.set.agent.config.Log.Warn("no packet reaches an attempt", "attempt", t.key, "error", err)
	}
}

// follow notes where the other replicas are now, if the attempt has a network.
func (t *attempt) follow(order *api.Order) {
	if order.GetNetwork() == nil {
		return
	}
	t.mu.Lock()
	t.place.latest = order
	t.mu.Unlock()
	go t.update()
}

// update tells the node where the other replicas are, if the attempt is connected.
func (t *attempt) update() {
	t.place.mu.Lock()
	defer t.place.mu.Unlock()
	order := t.latest(nil)
	if order == nil || t.link() == "" {
		return // join does it
	}
	network, err := overlay.Read(order)
	if err == nil {
		err = t.set.agent.networks.Update(network)
	}
	if err != nil {
		t.set.agent.config.Log.Warn("network of a launch", "attempt", t.key, "error", err)
	}
}

// lastWords is how long an attempt that has ended may still send what it has written.
const lastWords = 30 * time.Second

// leaveNetwork removes what the attempt has left of its network, once nothing is to be sent.
func (t *attempt) leaveNetwork() {
	link := t.link()
	if link == "" {
		return
	}
	for until := time.Now().Add(lastWords); overlay.There(link, t.key.String()) && time.Now().Before(until); {
		time.Sleep(time.Second) //nolint:forbidigo // the kernel has no event for it
	}
	if err := t.set.agent.networks.Leave(link, t.key.String()); err != nil {
		t.set.agent.config.Log.Warn("network of a launch stays", "attempt", t.key, "error", err)
	}
}

// connectionsOf returns the addresses to which the connections of an attempt are saved: those of
// the other replicas, and not that of the node.
func connectionsOf(order *api.Order) (all []string) {
	network, err := overlay.Read(order)
	if err != nil || network == nil || !order.GetTogether() {
		return nil
	}
	for host := overlay.FirstHost; host <= network.Hosts; host++ {
		all = append(all, network.Address(host).String()+"/32")
	}
	return all
}
