package agent

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/agent/saver"
	"github.com/phos-gpu/phos/cluster/agent/supervisor"
	"github.com/phos-gpu/phos/cluster/api"
	daemonapi "github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/boottime"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// usageTime is how long a supervisor may take to say what it has.
const usageTime = time.Second

// sendUsage sends what attempts use, one part for each. What is not known is left out.
func (a *Agent) sendUsage(ctx context.Context, q *api.UsageQuestion, to *batch) error {
	status, err := a.askPhosd(ctx)
	if err != nil {
		status = nil // its numbers are unknown
	}
	for _, at := range q.GetAttempts() {
		t := a.attempts.find(keyOf(at))
		if t == nil {
			continue
		}
		runs := t.started()
		if runs == nil {
			continue
		}
		one := &api.AttemptUsage{Attempt: at, Processes: usageOf(ctx, runs, status)}
		if err := to.send(&api.AnswerPart{Question: to.number, Usage: []*api.AttemptUsage{one}}); err != nil {
			return err
		}
	}
	return nil
}

// usageOf returns what the processes of an attempt use.
func usageOf(ctx context.Context, runs *supervisor.Attempt, phosd *daemonapi.StatusReply) []*api.ProcessUsage {
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	status, err := runs.Status(ctx)
	if err != nil || status.State == supervisor.Ended {
		return nil
	}
	group, err := procgroup.Open(status.Cgroup)
	if err != nil {
		return nil
	}
	defer group.Close()
	pids, err := group.Processes()
	if err != nil {
		return nil
	}
	trees := splitTrees(runs, &status, pids)
	all := make([]*api.ProcessUsage, len(trees))
	for i, tree := range trees {
		all[i] = tree.usage()
		if phosd != nil {
			tree.addGPUs(all[i], phosd)
		}
	}
	if len(all) == 1 { // the kernel has counted what has ended, too
		if used, err := group.Usage(); err == nil {
			all[0].CpuNs = proto.Uint64(uint64(used.CPU))
			if !used.NoMemory {
				all[0].MemoryBytes = proto.Uint64(used.MemoryBytes)
			}
		}
	}
	return all
}

// tree is the pids of a process with its children.
type tree []int

// splitTrees returns which pids belong to which process. If there is only one, all are its own.
func splitTrees(runs *supervisor.Attempt, status *supervisor.Status, pids []int) []tree {
	trees := make([]tree, len(status.Processes))
	if len(trees) == 1 {
		trees[0] = pids
		return trees
	}
	for i := range trees {
		root := rootOf(runs, status, i)
		for _, pid := range pids {
			if root != 0 && proc.Descends(pid, root) {
				trees[i] = append(trees[i], pid)
			}
		}
	}
	return trees
}

// rootOf returns the root of a process tree; 0: there is none now.
func rootOf(runs *supervisor.Attempt, status *supervisor.Status, process int) int {
	if from, restored := restoreOf(runs); restored {
		told, _ := saver.ReadRestored(from.Tell)
		root, _ := restoredProcess(runs, told.Root, process)
		return root.PID
	}
	if status.Processes[process].Exit != nil {
		return 0
	}
	return status.Processes[process].PID
}

// usage sums what the processes of a tree use.
func (t tree) usage() *api.ProcessUsage {
	var cpu time.Duration
	var memory uint64
	for _, pid := range t {
		if stat, err := proc.ReadStat(pid); err == nil {
			cpu += stat.CPU
		}
		if status, err := proc.ReadStatus(pid); err == nil {
			memory += status.ResidentBytes
		}
	}
	return &api.ProcessUsage{
		CpuNs: proto.Uint64(uint64(cpu)), AtNs: proto.Uint64(uint64(boottime.Now())), MemoryBytes: proto.Uint64(memory),
	}
}

// addGPUs adds what the programs of a tree have of GPUs, and how busy those are.
func (t tree) addGPUs(to *api.ProcessUsage, phosd *daemonapi.StatusReply) {
	held := map[uint32]uint64{}
	for _, program := range phosd.GetPrograms() {
		if slices.Contains(t, int(program.GetPid())) {
			for _, memory := range program.GetDescription().GetProgress().GetMemory() {
				held[memory.GetGpu()] += memory.GetBytes()
			}
		}
	}
	var bytes uint64
	var busy, known uint32
	for _, gpu := range phosd.GetGpus() {
		bytes += held[gpu.GetIndex()]
		if hardware := gpu.GetHardware(); held[gpu.GetIndex()] > 0 && hardware != nil && hardware.BusyPercent != nil {
			busy += hardware.GetBusyPercent()
			known++
		}
	}
	to.GpuBytes = &bytes
	if known > 0 {
		to.GpuBusyPercent = proto.Uint32(busy / known)
	}
}
