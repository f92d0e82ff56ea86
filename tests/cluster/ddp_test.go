package cluster

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// ranks is how many ranks the training has, each on a host of its own.
const ranks = 3

// ddp returns a launch that trains over gloo, until a file in a directory exists or for a
// number of steps.
func (s *site) ddp(dir string, steps int) launch.Spec {
	s.Helper()
	python, err := harness.Tool("TRAINING_PYTHON")
	harness.Need(s.T, "training", err)
	script := filepath.Join(dir, "ddp.py")
	s.hosts[0].Run("install", "-m", "644", harness.Path("tests", "cluster", "testdata", "ddp.py"), script)
	return launch.Spec{Network: launch.OwnNetwork, Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: ranks, Max: ranks}, Processes: []launch.Process{{
			Command:   []string{python, script, filepath.Join(dir, "on"), fmt.Sprint(steps)},
			Variables: map[string]string{"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
			Resources: launch.Resources{GPUs: 1}, // so that each is on another host
		}},
	}}}
}

// checkpoint has a launch saved that runs on, and waits for that.
func (s *site) checkpoint(id string) {
	s.Helper()
	before := s.get(id).GetCheckpointUnixMs()
	if _, err := s.launches.Checkpoint(s.Context(), &api.ActRequest{Id: id}); err != nil {
		s.Fatal(err)
	}
	harness.Eventually(s.T, "launch "+id+" is saved", func() bool { return s.get(id).GetCheckpointUnixMs() > before })
}

// printed returns what a replica has printed in all attempts.
func (s *site) printed(replica string, attempts uint32) string {
	s.Helper()
	var text strings.Builder
	for attempt := uint32(1); attempt <= attempts; attempt++ {
		text.WriteString(s.logsOf(replica, attempt))
	}
	return text.String()
}

// TestDDP: a training of several hosts over gloo is saved in one cut at random moments, and goes
// on, at the same or other hosts. All bits of all losses and of the weights are those of a training
// that nothing has disturbed.
func TestDDP(t *testing.T) {
	s := newSite(t, ranks+1, 1)
	dir := s.share("witness")
	id := s.launchAs(daemonUser, s.ddp(dir, 1<<30))
	s.awaitRunning(id)
	attempt := uint32(1)
	for number := range rounds.Of(4, 100) {
		all := replicasOf(id, ranks)
		for _, each := range all {
			before := -1
			if attempt > 1 {
				_, before = s.steps(each, attempt-1)
			}
			s.awaitSteps(each, attempt, before)
		}
		time.Sleep(rand.N(100 * time.Millisecond))
		switch number % 4 {
		case 0:
			s.suspend(id)
			s.resume(id)
			attempt++
		case 1, 3:
			s.checkpoint(id)
		case 2:
			from := s.get(id).GetReplicas()[rand.IntN(ranks)].GetNode()
			s.drain(from, true)
			s.awaitMoved(id, from)
			s.drain(from, false)
			attempt++
		}
		s.awaitRunning(id)
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Fatalf("it has ended: %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(id))
	}
	_, last := s.steps(replicasOf(id, ranks)[0], attempt)
	undisturbed := s.launchAs(daemonUser, s.ddp(s.share("reference"), last+1))
	if got := s.await(undisturbed, "ended"); got.GetResult() != "completed" {
		t.Fatalf("the reference has ended: %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(undisturbed))
	}
	for i, each := range replicasOf(id, ranks) {
		got, want := s.printed(each, attempt), s.printed(replicasOf(undisturbed, ranks)[i], 1)
		if got != want || !strings.Contains(want, "weights ") {
			t.Errorf("rank %d: %d lines, and undisturbed %d; the first that differ: %s", i,
				strings.Count(got, "\n"), strings.Count(want, "\n"), firstDifference(got, want))
		}
	}
	t.Logf("%d steps in %d attempts", last+1, attempt)
}

// firstDifference returns the first lines in which two texts differ.
func firstDifference(a, b string) string {
	other := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(other) || other[i] != line {
			return fmt.Sprintf("line %d: %q, %q", i, line, other[min(i, len(other)-1)])
		}
	}
	return "at the end"
}
