package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestHostDies: what ran on a host that dies starts on another one.
func TestHostDies(t *testing.T) {
	t.Parallel() // it waits most of the time
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

// TestLogOfDeadHost: what a host had printed some seconds before its death can still be read,
// also after a restart of the controller.
func TestLogOfDeadHost(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 2, 1)
	spec := shell("echo one; echo two; sleep 1000", 1, 1)
	spec.Place.Hostnames = []string{s.hosts[1].Name}
	id := s.launch(spec)
	s.awaitRunning(id)
	log := filepath.Join(s.hosts[0].DiskPath("/var/lib/phos-controller"), "logs", id+".0.1", fmt.Sprintf("%020d", 0))
	harness.Eventually(t, "the controller has both lines", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "one\n") && strings.Contains(string(text), "two\n")
	})
	s.hosts[1].Kill()
	s.readsKeptLog(id)
	s.controllers[0].Kill()
	s.controllers[0].Start()
	s.readsKeptLog(id)
}

// readsKeptLog waits until the log of a launch is read of what the controller keeps, and checks it.
func (s *site) readsKeptLog(id string) {
	s.Helper()
	var text string
	harness.Eventually(s.T, "the node is known to be silent", func() bool {
		text = s.logsOf(id, 1)
		return strings.Contains(text, "does not answer")
	})
	if !strings.HasPrefix(text, "one\ntwo\nnotice: ") || !strings.Contains(text, "that it had sent by 20") {
		s.Errorf("the log is %q", text)
	}
}

// TestControllerDies: launches do not notice that the controller is killed, and the next one knows
// them.
func TestControllerDies(t *testing.T) {
	t.Parallel() // it waits most of the time
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
	t.Parallel() // it waits most of the time
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

// TestFencedFromTheStart: what an agent starts at once when it attaches, before any renewal of its
// lease was answered, is killed as all else when its host is cut off.
func TestFencedFromTheStart(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 3, 1)
	dir := s.share("witness")
	spec := shell("cd "+dir+"; while :; do date +%s.%N > $PHOS_NODE.new; mv $PHOS_NODE.new $PHOS_NODE; sleep 0.02; done", 1, 1)
	spec.Place.Hostnames = []string{"node2", "node3"} // the controller is on the other one
	h := s.hosts[1]
	s.cordon("node3", true)
	h.Kill()
	id := s.launch(spec)
	h.Slow(300 * time.Millisecond) // so that orders come long before the first answer to a renewal
	s.boot(1)
	if got := s.awaitRunning(id).GetReplicas()[0].GetNode(); got != h.Name {
		t.Fatalf("it runs on %s", got)
	}
	s.cordon("node3", false)
	s.cutOff(h)
	s.awaitMoved(id, h.Name)
	if last, first := s.witness(dir, h.Name), s.began(id); last.After(first) {
		t.Errorf("%s has run until %v, and the next began at %v", h.Name, last, first)
	}
	h.Heal()
	s.awaitNodes(3)
	s.stop(id)
}
