package agent

import (
	"github.com/phos-gpu/phos/cluster/agent/overlay"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
)

// join makes the network namespace of an attempt, if its launch has a network of its own. No packet
// passes before the attempt runs.
func (t *attempt) join(spec *supervisor.Spec, order *api.Order) error {
	network, err := overlay.Read(order)
	if err != nil || network == nil {
		return err
	}
	a := t.set.agent
	owner, err := a.lookUp(order.GetOwner())
	if err != nil {
		return err
	}
	if err := a.networks.Update(network); err != nil {
		return err
	}
	spec.Link = network.Link()
	spec.Network, err = a.networks.Join(network, owner.uid)
	return err
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
func (t *attempt) connect(through bool) {
	link := t.link()
	if link == "" {
		return
	}
	if err := overlay.Connect(link, through); err != nil {
		t.set.agent.config.Log.Warn("link of an attempt", "attempt", t.key, "through", through, "error", err)
	}
}

// follow notes where the other replicas are now, if the attempt has a network.
func (t *attempt) follow(order *api.Order) {
	network, err := overlay.Read(order)
	if err != nil || network == nil {
		return // join says why
	}
	go func() {
		if t.link() == "" {
			return // join does it
		}
		if err := t.set.agent.networks.Update(network); err != nil {
			t.set.agent.config.Log.Warn("network of a launch", "attempt", t.key, "error", err)
		}
	}()
}

// leaveNetwork removes what the attempt has left of its network.
func (t *attempt) leaveNetwork() {
	link := t.link()
	if link == "" {
		return
	}
	if err := t.set.agent.networks.Leave(link); err != nil {
		t.set.agent.config.Log.Warn("network of a launch stays", "attempt", t.key, "error", err)
	}
}

// connectionsOf returns the networks to which the connections of an attempt are saved.
func connectionsOf(order *api.Order) []string {
	if order.GetNetwork() == nil || !order.GetTogether() {
		return nil
	}
	return []string{order.GetNetwork().GetPrefix()}
}
