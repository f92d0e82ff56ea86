package cluster

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
)

// keeping returns a counting launch that leaves files in its working directory when it begins, and
// prints them at the end.
func (s *site) keeping(dir string) launch.Spec {
	s.Helper()
	spec := s.counting(dir)
	command := &spec.Jobs[0].Processes[0].Command
	*command = []string{"/bin/sh", "-c", "mkdir -p sub && echo kept > sub/note && ln sub/note same && ln -s sub/note link && " +
		strings.Join(*command, " ") + "; status=$?; cat sub/note same link; exit $status"}
	return spec
}

// drain drains a node.
func (s *site) drain(name string, drains bool) {
	s.Helper()
	if _, err := s.cluster.ChangeNode(s.Context(), &api.ChangeNodeRequest{Name: name, Draining: &drains, Cordoned: &drains}); err != nil {
		s.Fatal(err)
	}
}

// TestFetch: without a directory that they share, a launch goes from host to host and back, with
// its image and its working directory, and the rights of its owner.
func TestFetch(t *testing.T) {
	s := newSite(t, 2, 1)
	dir := s.share("witness")
	id := s.launchAs(daemonUser, s.keeping(dir))
	from := s.awaitRunning(id).GetReplicas()[0].GetNode()
	s.awaitSteps(id, 1, 0)
	for attempt := uint32(2); attempt <= 3; attempt++ {
		s.drain(from, true)
		s.awaitMoved(id, from)
		_, last := s.steps(id, attempt-1)
		s.awaitSteps(id, attempt, last)
		s.continues(id, attempt)
		s.drain(from, false)
		from = s.get(id).GetReplicas()[0].GetNode()
	}
	s.finish(id, dir)
	if text := s.logsOf(id, 3); !strings.HasSuffix(text, "kept\nkept\nkept\n") {
		t.Errorf("the log ends with %q", text[max(0, len(text)-200):])
	}
}

// withCopies are settings by which each image is on two nodes.
const withCopies = settings + "[images]\nkeep = \"peers:1\"\n"

// awaitCopies waits until the newest image of a launch is on a number of other nodes, and returns
// it.
func (s *site) awaitCopies(id string, count int) (newest *api.Image) {
	s.Helper()
	harness.Eventually(s.T, fmt.Sprintf("the newest image has %d copies", count), func() bool {
		all := s.get(id).GetImages()
		if len(all) == 0 {
			return false
		}
		newest = all[len(all)-1]
		return newest.GetCurrent() && newest.GetRisk() == "" && len(newest.GetCopies()) == count
	})
	return newest
}

// TestCopies: a launch whose host dies goes on from a copy on another one, without a directory that
// they share; again from the next one.
func TestCopies(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 4, controllers: 1, gpus: 1}, withCopies)
	dir := s.share("witness")
	spec := s.keeping(dir)
	spec.Checkpoint.Every = launch.Duration(time.Second)
	spec.Place.Hostnames = []string{"node2", "node3", "node4"} // the controller is on the other one
	id := s.launch(spec)
	s.awaitRunning(id)
	for attempt := uint32(1); attempt <= 2; attempt++ {
		s.awaitSteps(id, attempt, 0)
		harness.Eventually(t, "an image of this attempt is current", func() bool {
			newest := s.awaitCopies(id, 1)
			return newest.GetAttempt() == attempt
		})
		victim := s.host(s.get(id).GetReplicas()[0].GetNode())
		_, reached := s.steps(id, attempt)
		victim.Kill()
		s.awaitMoved(id, victim.Name)
		s.awaitSteps(id, attempt+1, 0)
		if first, _ := s.steps(id, attempt+1); first <= 0 || first > reached+1 {
			t.Errorf("attempt %d begins with step %d, and the one before had printed %d", attempt+1, first, reached)
		}
	}
	s.finish(id, dir)
	if text := s.logsOf(id, 3); !strings.HasSuffix(text, "kept\nkept\nkept\n") {
		t.Errorf("the log ends with %q", text[max(0, len(text)-200):])
	}
}

// TestDrainedImageIsCopied: what is on a drained host alone is copied elsewhere, so that the host
// can be switched off; until then it cannot be removed.
func TestDrainedImageIsCopied(t *testing.T) {
	s := newSite(t, 2, 1)
	dir := s.share("witness")
	spec := s.keeping(dir)
	spec.Place.Hostnames = []string{"node2"}
	id := s.launch(spec)
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	s.suspend(id)
	_, err := s.cluster.RemoveNode(t.Context(), &api.RemoveNodeRequest{Name: "node2"})
	if err == nil || !strings.Contains(err.Error(), "the disk of node node2 alone has images") || !strings.Contains(err.Error(), id) {
		t.Errorf("removed with the only image: %v", err)
	}
	s.drain("node2", true)
	s.awaitCopies(id, 1)
	said := s.hosts[0].Run(s.hosts[0].Binary("pos_cli"), "checkpoints", id)
	if !strings.Contains(said, "node2,node1") || !strings.Contains(said, "current") {
		t.Errorf("phos checkpoints says: %s", said)
	}
	if _, err := s.cluster.RemoveNode(t.Context(), &api.RemoveNodeRequest{Name: "node2"}); err != nil {
		t.Error(err)
	}
	s.hosts[1].Kill()
}

// TestMigrate: a launch moves to another host and back while it runs, and to any; it is refused
// where there is no room, and stays where it is if the other host dies meanwhile.
func TestMigrate(t *testing.T) {
	s := newSite(t, 3, 1)
	dir, other := s.share("witness"), s.share("other")
	spec := s.keeping(dir)
	spec.Place.Hostnames = []string{"node1", "node2"}
	id := s.launch(spec)
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	phos := func(arguments ...string) (string, error) {
		said, err := s.hosts[0].CLI(t.Context(), arguments...).CombinedOutput()
		return string(said), err
	}
	if said, err := phos("checkpoint", id); err != nil || !strings.Contains(said, "saved main.0 on node1, generation 1") {
		t.Errorf("%v: %s", err, said)
	}
	for name, says := range map[string]string{
		"node1": "runs on node node1 already", "node3": "the launch may not run there", "node9": "no node is called", "": "--to NODE",
	} {
		if said, err := phos("migrate", id, "--to", name); err == nil || !strings.Contains(said, says) {
			t.Errorf("to %q: %v, want %q: %s", name, err, says, said)
		}
	}
	for attempt, to := range map[uint32]string{2: "node2"} {
		said, err := phos("migrate", id, "--to", to)
		if err != nil || !regexp.MustCompile(`(?s)moves to node node2.*copied .*moved to node node2: stood still for \d`).MatchString(said) {
			t.Errorf("%v: %s", err, said)
		}
		_, last := s.steps(id, attempt-1)
		s.awaitSteps(id, attempt, last)
		s.continues(id, attempt)
	}
	blocker := s.launch(s.counting(other))
	s.awaitRunning(blocker)
	if at := s.get(blocker).GetReplicas()[0].GetNode(); at == "node1" {
		said, err := phos("migrate", id, "--to", "any")
		if err == nil || !strings.Contains(said, "0 of the 1 GPUs that it needs are free") {
			t.Errorf("%v: %s", err, said)
		}
	}
	s.stop(blocker)
	if said, err := phos("migrate", id, "--to", "any", "--json"); err != nil || !strings.Contains(said, `"node": "node1"`) {
		t.Errorf("%v: %s", err, said)
	}
	s.continues(id, 3)
	s.finish(id, dir)
	if text := s.logsOf(id, 3); !strings.HasSuffix(text, "kept\nkept\nkept\n") {
		t.Errorf("the log ends with %q", text[max(0, len(text)-200):])
	}
}
