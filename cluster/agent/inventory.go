package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	clusterapi "github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// statusTime is how long phosd may take to say what it serves.
const statusTime = 2 * time.Second

// foreignVariable names a file with processes that count as foreign, because the software GPU has
// none: a line "GPU PID BYTES" for each. It is for tests.
const foreignVariable = "PHOS_TEST_FOREIGN_GPUS"

// Inventory implements link.Host.
func (a *Agent) Inventory(ctx context.Context) *clusterapi.Inventory {
	i := &clusterapi.Inventory{Cpus: uint32(runtime.NumCPU()), Os: osName(), Networks: true}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		i.MemoryBytes = info.Totalram * uint64(info.Unit)
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		i.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	status, err := a.askPhosd(ctx)
	if err != nil {
		i.PhosdError = err.Error()
		a.mu.Lock()
		defer a.mu.Unlock()
		i.Gpus, i.SavesTogether = a.gpus, a.together
		return i
	}
	i.PhosdVersion = status.GetDaemon().GetVersion()
	i.ChoosesGpus = i.GetPhosdVersion() == api.Version // an older one would not listen
	i.Gpus = gpusOf(status, a.runs)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gpus, i.ImagesPort = i.Gpus, uint32(a.images)
	a.together = i.GetPhosdVersion() == api.Version
	i.SavesTogether = a.together
	return i
}

// askPhosd asks phosd for its status.
func (a *Agent) askPhosd(ctx context.Context) (*api.StatusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	socket := a.config.Phosd
	if socket == "" {
		socket = api.DefaultSocket
	}
	client, err := api.Dial(socket)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	status, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	return status, api.FromStatus(err)
}

// gpusOf returns the GPUs that phosd serves, with what uses them beside launches.
func gpusOf(status *api.StatusReply, ofLaunch func(pid uint32) bool) (gpus []*clusterapi.GPU) {
	made := madeUpForeign()
	for _, g := range status.GetGpus() {
		gpu := &clusterapi.GPU{
			Index: g.GetIndex(), Name: g.GetName(), Uuid: g.GetUuid(), MemoryBytes: g.GetMemoryBytes(),
			Bad: g.GetHardware().GetLost(), Software: strings.HasPrefix(status.GetDaemon().GetGpus(), "soft"),
			ForeignProcesses: localPrograms(g, status.GetPrograms(), ofLaunch),
		}
		gpu.ForeignProcesses = append(gpu.ForeignProcesses, outsidePhos(g, made[g.GetIndex()])...)
		gpu.Foreign = uint32(len(gpu.GetForeignProcesses()))
		gpus = append(gpus, gpu)
	}
	return gpus
}

// localPrograms returns the programs of phos on a GPU that users have started on this machine,
// beside the launches.
func localPrograms(
	g *api.GPU, programs []*api.Program, ofLaunch func(pid uint32) bool,
) (found []*clusterapi.ForeignProcess) {
	for _, p := range programs {
		if !slices.Contains(g.GetPids(), p.GetPid()) || ofLaunch(p.GetPid()) {
			continue
		}
		local := &clusterapi.ForeignProcess{Pid: p.GetPid(), User: p.GetUser(), UnderPhos: true}
		for _, memory := range p.GetDescription().GetProgress().GetMemory() {
			if memory.GetGpu() == g.GetIndex() {
				used := memory.GetBytes()
				local.UsedBytes = &used
			}
		}
		found = append(found, local)
	}
	return found
}

// outsidePhos returns the processes outside phos that compute on a GPU, with made-up ones. Those
// that only draw, as a desktop does, leave the GPU to launches.
func outsidePhos(g *api.GPU, made []*api.ForeignProcess) (found []*clusterapi.ForeignProcess) {
	for _, p := range slices.Concat(g.GetHardware().GetForeign(), made) {
		if !p.GetGraphics() {
			found = append(found, &clusterapi.ForeignProcess{Pid: p.GetPid(), User: p.GetUser(), UsedBytes: p.UsedBytes})
		}
	}
	return found
}

// runs reports whether a process belongs to a launch: it is in the cgroup of an attempt, or, while
// it is restored, has the environment of one. A process that has just ended counts as one, too.
func (a *Agent) runs(pid uint32) bool {
	id, err := proc.Of(int(pid))
	if err != nil {
		return true
	}
	top, topErr := cgroup.Top()
	in, err := cgroup.Of(id.PID)
	if topErr == nil && err == nil && strings.HasPrefix(in, filepath.Join(top, a.cgroups)+"/") {
		return true
	}
	environment, err := id.Environment()
	return err != nil && proc.Gone(err) || len(a.attempts.owners(environment["PHOS_LAUNCH_ID"])) > 0
}

// madeUpForeign reads the file that foreignVariable names.
func madeUpForeign() map[uint32][]*api.ForeignProcess {
	text, err := os.ReadFile(os.Getenv(foreignVariable))
	if err != nil {
		return nil
	}
	found := map[uint32][]*api.ForeignProcess{}
	for line := range strings.Lines(string(text)) {
		var gpu, pid uint32
		var bytes uint64
		if _, err := fmt.Sscan(line, &gpu, &pid, &bytes); err == nil {
			found[gpu] = append(found[gpu], &api.ForeignProcess{Pid: pid, UsedBytes: &bytes})
		}
	}
	return found
}

// osName returns the name of the distribution.
func osName() string {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "PRETTY_NAME="); found {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
