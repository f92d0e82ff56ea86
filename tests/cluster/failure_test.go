package cluster

import (
	"testing"
)

// TestHostDies: what ran on a host that dies starts on another one.
func TestHostDies(t *testing.T) {
	s := newSite(t, 3, 1)
	id := s.launch(shell("sleep 1000", 2, 1))
	got := s.awaitRunning(id)
	victim := 0
	for i, h := range s.hosts {
		if i > 0 && (h.Name == got.GetReplicas()[0].GetNode() || h.Name == got.GetReplicas()[1].GetNode()) {
			victim = i
		}
	}
	s.hosts[victim].Kill()
	next := s.awaitMoved(id, s.hosts[victim].Name)
	if next.GetGeneration() <= got.GetGeneration() {
		t.Errorf("the generation is %d after %d", next.GetGeneration(), got.GetGeneration())
	}
}

// TestControllerDies: launches do not notice that the controller is killed, and the next one knows
// them.
func TestControllerDies(t *testing.T) {
	s := newSite(t, 2, 1)
	id := s.launch(shell("while :; do echo tick; sleep 0.1; done", 2, 1))
	before := s.awaitRunning(id)
	s.controllers[0].Kill()
	s.controllers[0].Start()
	s.awaitNodes(2)
	after := s.awaitRunning(id)
	for i, r := range after.GetReplicas() {
		if r.GetAttempt() != before.GetReplicas()[i].GetAttempt() {
			t.Errorf("replica %d is in attempt %d after %d", i, r.GetAttempt(), before.GetReplicas()[i].GetAttempt())
		}
	}
	s.stop(id)
}

// TestAgentDies: processes outlive their agent, and the next one adopts them.
func TestAgentDies(t *testing.T) {
	s := newSite(t, 1, 1)
	id := s.launch(shell("while :; do echo tick; sleep 0.1; done", 1, 1))
	s.awaitRunning(id)
	s.agents[0].Kill()
	s.agents[0].Start()
	s.awaitNodes(1)
	if got := s.awaitRunning(id); got.GetReplicas()[0].GetAttempt() != 1 {
		t.Errorf("it is in attempt %d", got.GetReplicas()[0].GetAttempt())
	}
	s.stop(id)
	if got := s.get(id); got.GetResult() != "stopped" {
		t.Errorf("got %s: %s", got.GetResult(), got.GetReason())
	}
}

// TestCutOff: a host that is cut off kills what it runs before another host starts it.
func TestCutOff(t *testing.T) {
	s := newSite(t, 3, 1)
	dir := s.share("witness")
	// A file that is being written when its writer is killed would be empty.
	spec := shell("cd "+dir+"; while :; do date +%s.%N > $PHOS_NODE.new; mv $PHOS_NODE.new $PHOS_NODE; sleep 0.02; done", 1, 1)
	spec.Place.Hostnames = []string{"node2", "node3"} // the controller is on the other one
	id := s.launch(spec)
	node := s.awaitRunning(id).GetReplicas()[0].GetNode()
	h := s.host(node)
	s.cutOff(h)
	s.awaitMoved(id, node)
	last := s.witness(dir, node)
	first := s.began(id)
	if last.After(first) {
		t.Errorf("%s has run until %v, and the next began at %v", node, last, first)
	}
	h.Heal()
	s.awaitNodes(3)
	s.stop(id)
}
