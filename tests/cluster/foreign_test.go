package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/cluster/api"
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

// TestLocalProgram: a program that runs under phos and belongs to no launch takes its GPU, as one
// outside phos does. What a launch has started takes none beside its own.
func TestLocalProgram(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := newSite(t, 1, 2)
	node := s.hosts[0]
	spec := s.counting(s.share("counting"))
	local := node.Program(t.Context(), spec.Jobs[0].Processes[0].Command...)
	if err := local.Start(); err != nil {
		t.Fatal(err)
	}
	const text = "used by 1 process of no launch (pid "
	harness.Eventually(t, "phos node show tells it", func() bool {
		said := node.RunCLI("node", "show", node.Name)
		return strings.Contains(said, text) && strings.Contains(said, ", under phos)")
	})
	first := s.launch(spec)
	if got := s.awaitRunning(first).GetReplicas()[0].GetGpus(); !slices.Equal(got, []uint32{1}) {
		t.Errorf("the first launch has GPUs %v, want 1", got)
	}
	s.awaitSteps(first, 1, 3)
	second := s.launch(shell("exec sleep 1000", 1, 1))
	harness.Eventually(t, "phos why tells it", func() bool {
		return strings.Contains(node.RunCLI("why", second), "GPU 0 of node node1: "+text)
	})
	if err := local.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = local.Wait() // it was killed
	if got := s.awaitRunning(second).GetReplicas()[0].GetGpus(); !slices.Equal(got, []uint32{0}) {
		t.Errorf("the second launch has GPUs %v, want 0", got)
	}
	nodes := sure(s, s.cluster.ListNodes, &api.ListNodesRequest{})
	for _, gpu := range nodes.GetNodes()[0].GetInventory().GetGpus() {
		if gpu.GetForeign() != 0 {
			t.Errorf("GPU %d of launches: %v", gpu.GetIndex(), gpu.GetForeignProcesses())
		}
	}
}
