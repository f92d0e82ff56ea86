package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// TestVisibleDevices runs a program with several values of CUDA_VISIBLE_DEVICES, and compares the
// GPUs that it sees with those that phosd lists: their UUIDs, in the order of the variable.
func TestVisibleDevices(t *testing.T) {
	program := harness.CompileC(t, true, harness.Workload("driver", "visible.c"))
	daemon := harness.Start(t, "--gpus=soft:4,memory=1GiB")
	daemon.NeedGPUs(t, 4)
	var ids []string
	for _, gpu := range daemon.Status().GetGpus() {
		ids = append(ids, gpu.GetUuid())
	}
	none, noDevice := []int{}, "init 100"
	for _, test := range []struct {
		name, value string
		want        []int
	}{
		{"one", "2", []int{2}},
		{"order", "3,1", []int{3, 1}},
		{"all", "3,2,1,0", []int{3, 2, 1, 0}},
		{"invalid", "0,2,-1,1", []int{0, 2}},
		{"out of range", "1,4,0", []int{1}},
		{"only out of range", "4", none},
		{"twice", "1,2,1", none},
		{"empty", "", none},
		{"minus", "-1", none},
		{"word", "NoDevFiles", none},
		{"UUID", ids[3], []int{3}},
		{"UUIDs", ids[2] + "," + ids[0], []int{2, 0}},
		{"unknown UUID", ids[1] + ",GPU-ffffffff-ffff," + ids[0], []int{1}},
		{"UUID of a part", "MIG-" + ids[0], none},
		{"blanks", " 1, 3", []int{1, 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := daemon.Program(program).In(t)
			run.Env = append(run.Env, "CUDA_VISIBLE_DEVICES="+test.value, "CUDA_DEVICE_ORDER=PCI_BUS_ID")
			run.OK()
			got := gpusIn(run.Output.String(), "program")
			var want []string
			for _, ordinal := range test.want {
				want = append(want, ids[ordinal])
			}
			if !slices.Equal(got, want) || (len(want) == 0) != strings.Contains(run.Output.String(), noDevice) {
				t.Errorf("%q: got %v, want %v\n%s", test.value, got, want, run.Output.String())
			}
		})
	}
	t.Run("not set", func(t *testing.T) {
		run := daemon.Program(program, "2,0").In(t)
		run.OK()
		text := run.Output.String()
		if got := gpusIn(text, "program"); !slices.Equal(got, ids) {
			t.Errorf("the program sees %v, want %v", got, ids)
		}
		if got, want := gpusIn(text, "child"), []string{ids[2], ids[0]}; !slices.Equal(got, want) {
			t.Errorf("the child, which has set the variable, sees %v, want %v", got, want)
		}
	})
	daemon.Empty()
}

// gpusIn returns the UUIDs that a process of visible.c has printed.
func gpusIn(text, process string) (ids []string) {
	_, text, _ = strings.Cut(text, process+" count ")
	lines := strings.Split(text, "\n")
	for i, line := range lines[1:] {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "gpu" || words[1] != fmt.Sprint(i) {
			break
		}
		ids = append(ids, words[2])
	}
	return ids
}

// TestVisibleShared runs programs that share memory between processes and GPUs, with the GPUs in
// another order, and with only the second one.
func TestVisibleShared(t *testing.T) {
	daemon := harness.Start(t, "--gpus=soft:2,memory=1GiB")
	daemon.NeedGPUs(t, 2)
	for _, test := range []struct{ source, visible string }{
		{"ipc.c", "1"}, {"ipc.c", "1,0"}, {"shared.c", "1"}, {"shared.c", "1,0"}, {"peers.c", "1,0"}, {"virtual.c", "1"},
	} {
		t.Run(test.source+" "+test.visible, func(t *testing.T) {
			run := daemon.Program(harness.CompileC(t, true, harness.Workload("driver", test.source))).In(t)
			run.Env = append(run.Env, "CUDA_VISIBLE_DEVICES="+test.visible)
			run.OK()
		})
	}
	daemon.Empty()
}
