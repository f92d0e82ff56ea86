package cluster

import (
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// h100 makes the software GPUs of a site ones for which NCCL has code.
const h100 = "--gpus=soft:1,cc=9.0,cuda=12.4"

// TestNCCL: ranks of NCCL on several hosts, which talk over sockets in a network of their own, are
// saved in one cut, and go on on other hosts. The ranks compare the results of every step with what
// a CPU computes.
func TestNCCL(t *testing.T) {
	const replicas = 2
	program := harness.CompileNCCL(t, harness.Workload("nccl", "ranks.c"))
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	s := newSite(t, 3, 1, h100)
	dir := s.share("witness")
	id := s.launch(launch.Spec{Network: launch.OwnNetwork, Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: replicas, Max: replicas}, Processes: []launch.Process{{
			Command:   []string{program, filepath.Join(dir, "on"), "5"},
			Resources: launch.Resources{GPUs: 1},
			Variables: map[string]string{"RENDEZVOUS": filepath.Join(dir, "meet")},
		}},
	}}})
	s.awaitRunning(id)
	attempt := uint32(1)
	for number := range rounds.Of(2, 30) {
		s.awaitAllSteps(replicasOf(id, replicas), attempt)
		if number%2 == 0 {
			s.checkpoint(id)
			continue
		}
		from := s.get(id).GetReplicas()[0].GetNode()
		s.drain(from, true)
		attempt++
		s.awaitMoved(id, from)
		s.allGoOn(id, replicas, attempt)
		s.drain(from, false)
	}
	s.release(dir)
	if got := s.await(id, "ended"); got.GetResult() != "completed" {
		t.Errorf("it has ended: %s: %s\n%s", got.GetResult(), got.GetReason(), s.logs(id))
	}
}
