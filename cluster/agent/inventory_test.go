package agent

import (
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

// TestLocalPrograms: a program of phos counts on the GPUs that it uses, unless a launch has started
// it, beside processes outside phos that compute.
func TestLocalPrograms(t *testing.T) {
	used := uint64(7)
	status := &api.StatusReply{
		Daemon: &api.DaemonStatus{Gpus: "soft:2"},
		Gpus: []*api.GPU{
			{Pids: []uint32{10, 20}},
			{Index: 1, Pids: []uint32{10, 30}, Hardware: &api.Hardware{Foreign: []*api.ForeignProcess{
				{Pid: 40, UsedBytes: &used}, {Pid: 50, Graphics: true},
			}}},
			{Index: 2},
		},
		Programs: []*api.Program{
			{Pid: 10, User: "ada", Description: &api.Description{Progress: &api.Progress{
				Memory: []*api.DeviceMemory{{Gpu: 0, Bytes: 5}, {Gpu: 1, Bytes: 6}},
			}}},
			{Pid: 20, User: "bob"},
			{Pid: 30, User: "bob"},
		},
	}
	gpus := gpusOf(status, func(pid uint32) bool { return pid == 20 })
	type process struct {
		pid       uint32
		underPhos bool
	}
	for i, want := range [][]process{{{10, true}}, {{10, true}, {30, true}, {40, false}}, nil} {
		var got []process
		for _, p := range gpus[i].GetForeignProcesses() {
			got = append(got, process{p.GetPid(), p.GetUnderPhos()})
		}
		if !slices.Equal(got, want) || gpus[i].GetForeign() != uint32(len(want)) {
			t.Errorf("GPU %d: %v, want %v", i, gpus[i], want)
		}
	}
	if first, second := gpus[0].GetForeignProcesses()[0], gpus[1].GetForeignProcesses()[0]; first.GetUsedBytes() != 5 ||
		second.GetUsedBytes() != 6 || first.GetUser() != "ada" {
		t.Errorf("one program on two GPUs: %v and %v", first, second)
	}
}
