package control

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestNetworks: no two launches that have not ended have the same network, and when all are taken
// another launch is refused by what to do.
func TestNetworks(t *testing.T) {
	w := newWorld(t)
	w.turn(func(l *Leader) { l.settings.Networks = netip.MustParsePrefix("10.1.0.0/22") })
	spec := simple(1, 0)
	spec.Network = launch.OwnNetwork
	var ids []string
	taken := map[string]string{}
	for range 3 {
		id := w.launch(spec)
		ids = append(ids, id)
		l := w.awaitLaunch(id, "there", func(*record.Launch) bool { return true })
		prefix, err := netip.ParsePrefix(l.Prefix)
		if err != nil || !netip.MustParsePrefix("10.1.0.0/22").Contains(prefix.Addr()) || l.Network < 1 || l.Network > 3 {
			t.Errorf("network %d has %s: %v", l.Network, l.Prefix, err)
		}
		if other := taken[l.Prefix]; other != "" {
			t.Errorf("%s and %s have %s", other, id, l.Prefix)
		}
		taken[l.Prefix] = id
	}
	_, err := w.submit(spec, Submission{Owner: "ada", By: "ada"})
	if err == nil || !strings.Contains(err.Error(), "all 3 networks of 10.1.0.0/22") {
		t.Errorf("a fourth one: %v", err)
	}
	if err := w.act(ids[1], launch.StopRequested{By: "ada"}); err != nil {
		t.Fatal(err)
	}
	w.await(ids[1], launch.Ended)
	next := w.launch(spec)
	l := w.awaitLaunch(next, "there", func(*record.Launch) bool { return true })
	if taken[l.Prefix] != ids[1] {
		t.Errorf("after one has ended, the next has %s of %v", l.Prefix, taken)
	}
	if other := w.launch(simple(1, 0)); w.awaitLaunch(other, "there", func(*record.Launch) bool { return true }).Network != 0 {
		t.Error("a launch without a network has one")
	}
}

// TestNodeWithoutNetworks: a launch with a network of its own does not run where the agent makes
// none.
func TestNodeWithoutNetworks(t *testing.T) {
	w := newWorld(t)
	a := w.join("a", 1)
	a.detach()
	a.old = true
	a.attach()
	spec := simple(1, 0)
	spec.Network = launch.OwnNetwork
	if _, err := w.submit(spec, Submission{Owner: "ada", By: "ada"}); err == nil || !strings.Contains(err.Error(), "an agent that makes networks") {
		t.Errorf("without any node that makes networks: %v", err)
	}
	w.join("b", 1)
	id := w.launch(spec)
	if l := w.await(id, launch.Running); l.State.Replicas[0].Node != "b" {
		t.Errorf("it runs on node %s", l.State.Replicas[0].Node)
	}
}
