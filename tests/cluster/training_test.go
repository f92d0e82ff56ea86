package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/pipeline/progress"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestTraining: a launch trains with phos.pipeline. A host dies, and the others go on; when it is
// back its replica starts again, and joins them. Another host is drained, and a rank is killed. All
// make the steps that one process makes.
func TestTraining(t *testing.T) {
	t.Parallel() // it waits most of the time
	python, err := harness.Tool("TRAINING_PYTHON")
	harness.Need(t, "training", err)
	const steps = 400
	s := newSite(t, 4, 1)
	dir := s.share("witness")
	program := func(name string) string { return harness.Path("tests/pipeline/testdata", name) }
	numbers := fmt.Sprintf("conv %d 2 14 0.8", steps)
	spec := shell(fmt.Sprintf("exec %s %s %s %s/out faults=1 pause=0.02", python, program("train.py"), numbers, dir), 4, 1)
	spec.Jobs[0].Replicas, spec.Jobs[0].Retries = launch.Replicas{Min: 3, Max: 4}, 3
	spec.Variables = map[string]string{
		"PYTHONPATH": harness.Path("python"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
		"PATH": filepath.Dir(s.hosts[0].Binary("pos_cli")) + ":/usr/bin:/bin",
	}
	id := s.launch(spec)
	defer func() {
		if t.Failed() {
			t.Logf("%v\n%s", s.get(id), s.logs(id))
		}
	}()
	files := filepath.Join(s.hosts[0].Shared(), "witness", "out.*.steps")
	made := func() (count int) {
		paths, _ := filepath.Glob(files)
		for _, path := range paths {
			text, _ := os.ReadFile(path)
			count = max(count, strings.Count(string(text), "\n"))
		}
		return count
	}
	harness.Eventually(t, "it trains", func() bool { return made() >= 3 })
	s.awaitRunning(id)
	s.cordon(s.hosts[2].Name, true)
	s.hosts[2].Kill()
	s.boot(2) // so that its processes are known to be gone at once
	before := made()
	harness.Eventually(t, "the others go on", func() bool { return made() > before+5 })
	s.cordon(s.hosts[2].Name, false)
	s.awaitRanks(id, 4)
	s.drainOf(id, s.hosts[3].Name)
	s.killRankOf(id)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("the launch has %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(id))
	}
	reference := filepath.Join(t.TempDir(), "want")
	one := exec.CommandContext(t.Context(), python, append(append([]string{program("reference.py"), "rule"}, strings.Fields(numbers)...), reference)...)
	one.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	if said, err := one.CombinedOutput(); err != nil {
		t.Fatalf("reference.py: %v: %s", err, said)
	}
	s.trained(files, reference+".steps")
}

// shownTraining is what phos pipeline --json prints.
type shownTraining struct {
	progress.Status
	Losses []progress.Loss
}

// awaitRanks waits until phos pipeline shows a number of ranks, which train.
func (s *site) awaitRanks(id string, ranks int) (shown shownTraining) {
	s.Helper()
	harness.Eventually(s.T, fmt.Sprintf("%d ranks train", ranks), func() bool {
		said, err := s.hosts[0].CLI(s.Context(), "pipeline", "--json", id).Output()
		shown = shownTraining{}
		return err == nil && json.Unmarshal(said, &shown) == nil && len(shown.Ranks) == ranks && shown.Seconds > 0
	})
	return shown
}

// drainOf drains a host: the rank there leaves after a step, and none is lost by that.
func (s *site) drainOf(id, host string) {
	s.Helper()
	before := s.awaitRanks(id, 4)
	on := slices.IndexFunc(before.Ranks, func(r progress.Rank) bool { return r.Host == host })
	if on < 0 {
		s.Fatalf("no rank is on %s: %+v", host, before.Ranks)
	}
	s.hosts[0].RunCLI("node", "drain", host)
	after := s.awaitRanks(id, 3)
	last := after.Events[len(after.Events)-1]
	if !slices.Equal(last.Left, []int{before.Ranks[on].Rank}) || len(last.Lost) != 0 {
		s.Errorf("after the drain of rank %d: %+v", before.Ranks[on].Rank, last)
	}
	s.hosts[0].RunCLI("node", "uncordon", host)
	s.awaitRanks(id, 4)
}

// killRankOf kills a rank of a training by its number. Another one joins in its place.
func (s *site) killRankOf(id string) {
	s.Helper()
	victim := s.awaitRanks(id, 4).Ranks[1]
	s.hosts[0].RunCLI("pipeline", "--kill", fmt.Sprint(victim.Rank), id)
	harness.Eventually(s.T, "the loss is shown", func() bool {
		said, err := s.hosts[0].CLI(s.Context(), "pipeline", "--json", id).Output()
		var shown shownTraining
		return err == nil && json.Unmarshal(said, &shown) == nil && slices.ContainsFunc(shown.Events, func(e progress.Event) bool {
			return len(e.Lost) == 1 && e.Lost[0].Rank == victim.Rank // its replacement may have joined already
		})
	})
	if said := s.hosts[0].RunCLI("pipeline", id); !strings.Contains(said, "IF LOST") || !strings.Contains(said, "main.") {
		s.Errorf("phos pipeline says\n%s", said)
	}
}

// trained compares what ranks have made with what one process makes. At least three have begun with
// the first step, because the launch begins with three; others were lost, have left and have come.
func (s *site) trained(files, reference string) {
	s.Helper()
	want, err := os.ReadFile(reference)
	if err != nil {
		s.Fatal(err)
	}
	paths, err := filepath.Glob(files)
	if err != nil {
		s.Fatal(err)
	}
	begun, ended := 0, 0
	for _, path := range paths {
		got, err := os.ReadFile(path)
		if err != nil || len(got) == 0 || !strings.Contains(string(want), string(got)) {
			s.Errorf("%s: %v: other steps than those of one process:\n%.500s", path, err, got)
		}
		if strings.HasPrefix(string(want), string(got)) {
			begun++
		}
		if strings.HasSuffix(string(want), string(got)) {
			ended++
		}
	}
	if len(paths) < 6 || begun < 3 || ended < 3 {
		s.Errorf("%d ranks, of which %d have made the first step and %d the last one", len(paths), begun, ended)
	}
}
