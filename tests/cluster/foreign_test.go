package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// foreignFile is where the agents of these hosts find made-up processes that use a GPU.
const foreignFile = "/run/foreign-gpus"

// foreign sets which processes outside phos use GPUs of a host, a line "GPU PID BYTES" for each.
func (s *site) foreign(host int, lines string) {
	s.Helper()
	s.write(s.hosts[host], foreignFile, lines)
}

// TestForeignGPU: while a process outside phos uses a GPU, a launch gets another one, and the next
// one waits and is told of that process. It starts when the process has ended.
func TestForeignGPU(t *testing.T) {
	s := newSite(t, 1, 2)
	s.agents[0].Kill()
	s.agents[0].Environment = []string{"PHOS_TEST_FOREIGN_GPUS=" + foreignFile}
	s.foreign(0, "0 4242 4294967296\n")
	s.agents[0].Start()
	node, text := s.hosts[0], "used by 1 process outside phos (pid 4242, 4 GiB)"
	harness.Eventually(t, "phos node show tells it", func() bool {
		return strings.Contains(node.RunCLI("node", "show", node.Name), text)
	})
	first := s.launch(shell("exec sleep 1000", 1, 1))
	if got := s.awaitRunning(first).GetReplicas()[0].GetGpus(); !slices.Equal(got, []uint32{1}) {
		t.Errorf("the first launch has GPUs %v, want 1", got)
	}
	second := s.launch(shell("exit 0", 1, 1))
	harness.Eventually(t, "phos why tells it", func() bool {
		return strings.Contains(node.RunCLI("why", second), "GPU 0 of node node1: "+text)
	})
	s.await(second, "queued")
	s.foreign(0, "")
	s.await(second, "ended")
}
