package launch

import (
	"os/exec"
	"slices"
	"testing"
)

// TestEnvironment checks the ranks of two replicas of two processes against torchrun's definition:
// RANK = NODE_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK.
func TestEnvironment(t *testing.T) {
	spec := Spec{Name: "digits", Variables: map[string]string{"A": "launch", "B": "launch", "C": "launch"}, Jobs: []Job{{
		Name: "train", Variables: map[string]string{"B": "job", "C": "job"},
		Processes: []Process{
			{Resources: Resources{GPUs: 1}},
			{Resources: Resources{GPUs: 2}, Variables: map[string]string{"C": "process", "MASTER_PORT": "1"}},
		},
	}}}
	got := spec.Environment(Replica{Index: 4, Attempt: 3}, 1, Where{
		ID: "l-7", Generation: 2, Rank: 1, World: 2, MainAddress: "10.0.0.1", MainPort: 29500, Node: "node-2",
		GPUs: []int{5, 0, 3}, Ports: map[string]int{"tensor-board": 6006},
	})
	want := []string{
		"A=launch", "B=job", "C=process", "CUDA_VISIBLE_DEVICES=5,0,3", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
		"MASTER_ADDR=10.0.0.1", "MASTER_PORT=1", "NODE_RANK=1", "PHOS_ATTEMPT=3", "PHOS_GENERATION=2", "PHOS_GPUS=0,3",
		"PHOS_JOB=train", "PHOS_LAUNCH_ID=l-7", "PHOS_LAUNCH_NAME=digits", "PHOS_NODE=node-2",
		"PHOS_PORT_TENSOR_BOARD=6006", "PHOS_PROCESS=1", "PHOS_REPLICA=4", "PHOS_REPLICAS=2", "RANK=3", "WORLD_SIZE=4",
	}
	if list := Strings(got); !slices.Equal(list, want) {
		t.Errorf("got  %q\nwant %q", list, want)
	}
	// A process gets all of it as it is.
	shell := exec.Command("/bin/sh", "-c", `echo "$RANK of $WORLD_SIZE"`)
	shell.Env = Strings(got)
	if out, err := shell.Output(); err != nil || string(out) != "3 of 4\n" {
		t.Errorf("a shell: got %q, %v", out, err)
	}
}
