package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
)

// used is what phos top says of a process.
type used struct {
	Job, Node, State string
	Replica, Process int
	Restarts         int
	GPUs             []int
	CPUPercent       *float64 `json:"cpu_percent"`
	MemoryBytes      *uint64  `json:"memory_bytes"`
	GPUMemoryBytes   *uint64  `json:"gpu_memory_bytes"`
	GPUBusyPercent   *int     `json:"gpu_busy_percent"`
}

// top returns what phos top says, by JOB.REPLICA.PROCESS.
func (s *site) top(what ...string) map[string]used {
	s.Helper()
	var all []used
	if err := json.Unmarshal([]byte(s.hosts[0].RunCLI(append([]string{"top", "--json"}, what...)...)), &all); err != nil {
		s.Fatal(err)
	}
	found := map[string]used{}
	for _, each := range all {
		found[fmt.Sprintf("%s.%d.%d", each.Job, each.Replica, each.Process)] = each
	}
	return found
}

// TestTop: processes of all nodes are shown with what they use, by their limits, by their own
// children and by phosd.
func TestTop(t *testing.T) {
	s := newSite(t, 2, 1)
	const memory = 100 << 20
	holds := fmt.Sprintf(`exec awk -v size=%d 'BEGIN { while (length(text) < size) text = text text "0123456789abcdef"; system("sleep 1000") }'`, memory)
	spec := launch.Spec{Name: "mixed", Jobs: []launch.Job{
		{Name: "alone", Processes: []launch.Process{{
			Command: []string{"/bin/sh", "-c", holds}, Resources: launch.Resources{Memory: 8 * memory},
		}}},
		{Name: "pair", Replicas: launch.Replicas{Min: 2, Max: 2}, Processes: []launch.Process{
			{Command: []string{"/bin/sh", "-c", "(while :; do :; done) & wait"}},
			{Command: []string{"/bin/sh", "-c", "sleep 1000"}, Resources: launch.Resources{GPUs: 1}},
		}},
	}}
	id := s.launch(spec)
	s.awaitRunning(id)
	var got map[string]used
	harness.Eventually(t, "the one process has its memory", func() bool {
		got = s.top("mixed")
		has := got["alone.0.0"].MemoryBytes
		return has != nil && *has > memory
	})
	if len(got) != 5 {
		t.Fatalf("5 processes run: %+v", got)
	}
	if has := *got["alone.0.0"].MemoryBytes; has > 8*memory {
		t.Errorf("one process of %d bytes has %d", memory, has)
	}
	for replica := range 2 {
		busy, idle := got[fmt.Sprintf("pair.%d.0", replica)], got[fmt.Sprintf("pair.%d.1", replica)]
		if busy.CPUPercent == nil || idle.CPUPercent == nil || *busy.CPUPercent < 1 || *idle.CPUPercent > *busy.CPUPercent/4 {
			t.Errorf("the busy one: %+v; the idle one: %+v", busy, idle)
		}
		if busy.Node != idle.Node || busy.State != "running" || len(busy.GPUs) != 0 || len(idle.GPUs) != 1 ||
			busy.GPUBusyPercent != nil || busy.GPUMemoryBytes == nil || *busy.GPUMemoryBytes != 0 {
			t.Errorf("the busy one: %+v; the idle one: %+v", busy, idle)
		}
	}
	if part := s.top("mixed/pair.1.1"); len(part) != 1 || part["pair.1.1"].Node == "" {
		t.Errorf("one process: %+v", part)
	}
	s.topAway(id)
	s.topScreen()
	s.agents[1].Kill()
	command := s.hosts[0].CLI(t.Context(), "top")
	said, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "node "+s.hosts[1].Name+": it does not answer now") ||
		!strings.Contains(string(said), "pair.1.1") || strings.Contains(string(said), "\x1b") {
		t.Errorf("without an agent: %v: %s", err, said)
	}
}

// topAway checks what another user sees.
func (s *site) topAway(id string) {
	s.Helper()
	away := s.hosts[1]
	token, login := s.invite("add", "ada", "--account", "nobody")
	s.write(away, awayToken, token+"\n")
	s.accept(away, append(login, "--token-file", awayToken)...)
	if said := s.accept(away, "top", "--once"); strings.Contains(said, "pair") || !strings.Contains(said, "PROCESS") {
		s.Errorf("another user sees: %s", said)
	}
	if said := s.refuse(away, "top", id); !strings.Contains(said, "no such launch") {
		s.Errorf("another user's launch: %s", said)
	}
}

// topScreen checks what a terminal of 4 rows shows, and that Ctrl-C ends it.
func (s *site) topScreen() {
	s.Helper()
	seat := sitAt(s.T, 4, 60, s.hosts[0].CLI(s.Context(), "top", "--every", "1s"))
	harness.Eventually(s.T, "the table is shown twice", func() bool {
		seat.mu.Lock()
		defer seat.mu.Unlock()
		return strings.Count(seat.printed, "(4 more rows") >= 2
	})
	seat.types("\x03")
	seat.ends(0)
}

// TestTopGPU: the memory of GPUs is what the node's phosd says.
func TestTopGPU(t *testing.T) {
	s := newSite(t, 1, 1)
	dir := s.share("witness")
	id := s.launch(s.counting(dir))
	s.awaitRunning(id)
	s.awaitSteps(id, 1, 0)
	var status struct {
		Programs []struct {
			MemoryBytes uint64 `json:"memory_bytes"`
		}
	}
	if err := json.Unmarshal([]byte(s.hosts[0].RunCLI("--status", "--json")), &status); err != nil || len(status.Programs) != 1 {
		t.Fatalf("%v: %+v", err, status)
	}
	got := s.top(id)["main.0.0"]
	if got.GPUMemoryBytes == nil || *got.GPUMemoryBytes != status.Programs[0].MemoryBytes || *got.GPUMemoryBytes == 0 {
		t.Errorf("phos top says %+v, phosd %+v", got, status)
	}
	s.finish(id, dir)
}
