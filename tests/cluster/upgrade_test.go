package cluster

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/hosts"
)

// parts are the daemons of a site that an upgrade replaces, in the order of docs/cluster.md.
func (s *site) parts() []*hosts.Daemon { return slices.Concat(s.controllers, s.agents, s.phosds) }

// replace stops a daemon as systemd does, and starts the one of another build in its place.
func (s *site) replace(d *hosts.Daemon, programs string) {
	s.Helper()
	d.Signal(syscall.SIGTERM)
	if err := d.Await(); err != nil {
		s.Errorf("%s ended with %v", d.Name, err)
	}
	d.Arguments[0] = filepath.Join(programs, filepath.Base(d.Arguments[0]))
	d.Start()
}

// awaitVersion waits until all parts are of a version.
func (s *site) awaitVersion(is func(string) bool) {
	s.Helper()
	harness.Eventually(s.T, "all parts are of the other build", func() bool {
		status, err := s.cluster.Status(s.Context(), &api.StatusRequest{})
		if err != nil || !is(status.GetVersion()) {
			return false
		}
		nodes, err := s.cluster.ListNodes(s.Context(), &api.ListNodesRequest{})
		return err == nil && !slices.ContainsFunc(nodes.GetNodes(), func(n *api.Node) bool {
			return !is(n.GetVersion()) || !is(n.GetInventory().GetPhosdVersion())
		})
	})
}

// TestUpgrade: each part is replaced by that of another build, and again by the first one, while
// launches run. They do not notice: what counts on a GPU goes on without a gap. What an earlier
// build has started can be saved and restored by the next one.
func TestUpgrade(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSiteWith(t, shape{hosts: 2, controllers: 1, gpus: 1, programs: otherBuild(t)}, settings)
	dir := s.share("witness")
	counts := s.launch(s.counting(dir))
	ticks := s.launch(shell("while :; do echo tick; sleep 0.1; done", 2, 0))
	pair := s.launch(s.exchanging(dir))
	s.awaitRunning(pair)
	s.awaitRunning(counts)
	s.awaitRunning(ticks)
	s.awaitVersion(func(v string) bool { return v == otherVersion })
	for i, programs := range []string{harness.Bin(), other.dir} {
		for _, part := range s.parts() {
			_, before := s.steps(counts, 1)
			s.replace(part, programs)
			s.awaitNodes(2)
			s.awaitSteps(counts, 1, before)
		}
		s.awaitVersion(func(v string) bool { return (v == otherVersion) == (programs == other.dir) })
		s.goesOn(pair, uint32(i+2))
	}
	for _, id := range []string{counts, ticks} {
		for i, r := range s.awaitRunning(id).GetReplicas() {
			if r.GetAttempt() != 1 {
				t.Errorf("replica %d of %s is in attempt %d", i, id, r.GetAttempt())
			}
		}
	}
	s.stop(ticks)
	s.finish(counts, dir)
	if got := s.await(pair, "ended"); got.GetResult() != "completed" {
		t.Errorf("got %s: %s", got.GetResult(), got.GetReason())
	}
}

// goesOn suspends a launch of two processes that another build has started, and resumes it as its
// next attempt.
func (s *site) goesOn(id string, attempt uint32) {
	s.Helper()
	process := id + "/main.0.1"
	s.awaitSteps(process, attempt-1, 0)
	s.suspend(id)
	s.resume(id)
	s.awaitRunning(id)
	_, last := s.steps(process, attempt-1)
	s.awaitSteps(process, attempt, last)
	s.continues(process, attempt)
}
