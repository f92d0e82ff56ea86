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

	"github.com/phos-gpu/phos/tests/harness"
)

// starts returns which job got which GPUs, in the order of a log of events.
func starts(t *testing.T, log string) (found []string) {
	t.Helper()
	names := map[int]string{}
	for _, line := range strings.Split(strings.TrimSpace(log), "\n")[1:] {
		var event struct {
			Event, Name, On string
			Job             int
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		switch event.Event {
		case "arrive":
			names[event.Job] = event.Name
		case "start":
			found = append(found, names[event.Job]+" on "+event.On)
		}
	}
	return found
}

// simulator runs pos_cli sim here, which must succeed.
func simulator(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(harness.Bin(), "pos_cli"), append([]string{"sim"}, arguments...)...)
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("sim %v: %v: %s", arguments, err, said)
	}
	return string(said)
}

// TestDecisions: the log of what a cluster has decided is consistent, and a simulation of the same
// jobs gives them the same GPUs in the same order. Each launch is one replica, which holds its GPUs
// to its end, as a job of a simulation does; all wait for the first one, so that every later time
// follows from its end in both.
func TestDecisions(t *testing.T) {
	s := newSiteWith(t, shape{hosts: 1, controllers: 1, gpus: 4}, settings+"[scheduler]\norder = \"fifo\"\nbackfill = \"none\"\n")
	gate := filepath.Join(s.share("gate"), "open")
	ids := []string{s.launch(shell(fmt.Sprintf("until [ -e %s ]; do sleep 0.05; done", gate), 1, 4))}
	s.awaitRunning(ids[0])
	for i, gpus := range []int{2, 1, 1, 4, 1, 2, 3, 1, 1, 4, 2, 2} {
		ids = append(ids, s.launch(shell(fmt.Sprintf("sleep 0.%d", i%4), 1, gpus)))
	}
	s.hosts[0].Run("touch", gate)
	for _, id := range ids {
		if got := s.await(id, "ended"); got.GetResult() != "completed" {
			t.Errorf("launch %s: %s", id, got.GetReason())
		}
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	here := s.hosts[0].RunCLI("events", "--as-trace")
	if err := os.WriteFile(file("here.jsonl"), []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	simulator(t, "check", "--events", file("here.jsonl"))
	simulator(t, "trace", "--events", file("here.jsonl"), "--out", file("here.csv"))
	simulator(t, "run", "--jobs", file("here.csv"), "--gpu-types", "phos software GPU:1x4", "--order", "fifo",
		"--backfill", "none", "--placement", "best-fit", "--events", file("again.jsonl"))
	again, err := os.ReadFile(file("again.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want, got := starts(t, here), starts(t, string(again))
	if len(want) != len(ids) || !slices.Equal(got, want) {
		t.Errorf("the cluster started %q, and the simulation %q\n%s", want, got, here)
	}
}
