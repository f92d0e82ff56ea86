package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestMembers: a process of a launch whose replicas are a range learns that a replica is lost, and
// that it has come back, and is not started again for that.
func TestMembers(t *testing.T) {
	t.Parallel() // it waits most of the time
	python, err := exec.LookPath("python3")
	harness.Need(t, "python", err)
	s := newSite(t, 3, 1)
	script := harness.Path(filepath.Join("tests/cluster/testdata/tell_members.py"))
	spec := shell(python+" "+script, 3, 1)
	spec.Jobs[0].Replicas = launch.Replicas{Min: 2, Max: 3}
	spec.Variables = map[string]string{"PYTHONPATH": harness.Path("python"), "PYTHONDONTWRITEBYTECODE": "1"}
	id := s.launch(spec)
	replicas := s.awaitRunning(id).GetReplicas()
	lost := slices.IndexFunc(replicas, func(r *api.Replica) bool { return r.GetNode() == s.hosts[2].Name })
	told := (lost + 1) % len(replicas)
	says := func(line string) {
		t.Helper()
		harness.Eventually(t, fmt.Sprintf("replica %d says %q", told, line), func() bool {
			return strings.HasSuffix(s.logs(fmt.Sprintf("%s/main.%d", id, told)), line+"\n")
		})
	}
	line := func(without int) string {
		words := []string{"members"}
		for i, r := range s.get(id).GetReplicas() {
			if i != without {
				words = append(words, fmt.Sprintf("%d/%d@%s=%s", i, r.GetAttempt(), r.GetNode(), s.host(r.GetNode()).Address))
			}
		}
		return strings.Join(words, " ")
	}
	says(line(-1))
	s.cordon(s.hosts[2].Name, true)
	s.hosts[2].Kill()
	s.boot(2) // so that its processes are known to be gone at once
	says(line(lost))
	s.cordon(s.hosts[2].Name, false)
	if after := s.awaitRunning(id).GetReplicas(); after[lost].GetAttempt() != 2 || after[told].GetAttempt() != 1 {
		t.Errorf("the attempts are %d and %d", after[lost].GetAttempt(), after[told].GetAttempt())
	}
	says(line(-1))
	s.stop(id)
}

// cordon closes a node for new launches, or opens it again.
func (s *site) cordon(node string, closed bool) {
	s.Helper()
	if _, err := s.cluster.ChangeNode(s.Context(), &api.ChangeNodeRequest{Name: node, Cordoned: &closed}); err != nil {
		s.Fatal(err)
	}
}
