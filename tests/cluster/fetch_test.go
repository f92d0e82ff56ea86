package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
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
	for _, h := range s.hosts {
		left, err := os.ReadDir(filepath.Join(h.DiskPath("/var/lib/phos-agent"), "images"))
		t.Logf("%s keeps %v, %v", h.Name, left, err)
	}
}
