package launch

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Where is what a process has to know of its place. Its node's agent knows it.
type Where struct {
	// ID and Generation are those of the launch.
	ID         string
	Generation int
	// Rank is the replica's rank among the World replicas of its job that are there.
	Rank, World int
	// MainAddress is that of the node of rank 0, MainPort a port that was reserved there.
	MainAddress string
	MainPort    int
	Node        string
	// GPUs are those of the replica on its node, in the order of the processes that asked for them.
	GPUs []int
	// Ports are the numbers of the process's ports, by name.
	Ports map[string]int
	// Device is the network device by which replicas reach each other, if that is always the same one.
	Device string
}

// Environment returns the variables of a process: what the owner has set for the launch, the job
// and the process, and what phos sets. Beside names of its own these are the names that torchrun
// sets, so that a script for torch.distributed runs as it is: a replica is to it what a node is to
// torchrun, and each process sees all GPUs of its replica.
func (s *Spec) Environment(r Replica, process int, at Where) map[string]string {
	job := &s.Jobs[r.Job]
	local := len(job.Processes)
	values := map[string]string{
		"RANK": strconv.Itoa(at.Rank*local + process), "WORLD_SIZE": strconv.Itoa(at.World * local),
		"LOCAL_RANK": strconv.Itoa(process), "LOCAL_WORLD_SIZE": strconv.Itoa(local),
		"NODE_RANK": strconv.Itoa(at.Rank), "MASTER_ADDR": at.MainAddress, "MASTER_PORT": strconv.Itoa(at.MainPort),
	}
	if at.Device != "" { // others would be found by the host's name, which has another network
		values["GLOO_SOCKET_IFNAME"], values["NCCL_SOCKET_IFNAME"] = at.Device, at.Device
	}
	maps.Copy(values, s.Variables)
	maps.Copy(values, job.Variables)
	maps.Copy(values, job.Processes[process].Variables)
	first, count := GPUsOf(job.Processes, process)
	maps.Copy(values, map[string]string{
		"CUDA_VISIBLE_DEVICES": numbers(at.GPUs),
		"PHOS_GPUS":            numbers(at.GPUs[first : first+count]),
		"PHOS_LAUNCH_ID":       at.ID,
		"PHOS_LAUNCH_NAME":     s.Name,
		"PHOS_JOB_NAME":        job.Name,
		"PHOS_REPLICA":         strconv.Itoa(r.Index),
		"PHOS_REPLICAS":        strconv.Itoa(at.World),
		"PHOS_PROCESS":         strconv.Itoa(process),
		"PHOS_ATTEMPT":         strconv.Itoa(r.Attempt),
		"PHOS_GENERATION":      strconv.Itoa(at.Generation),
		"PHOS_NODE":            at.Node,
	})
	for name, port := range at.Ports {
		values["PHOS_PORT_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = strconv.Itoa(port)
	}
	return values
}

// GPUsOf returns which of its replica's GPUs are those of a process.
func GPUsOf(processes []Process, process int) (first, count int) {
	for _, each := range processes[:process] {
		first += each.Resources.GPUs
	}
	return first, processes[process].Resources.GPUs
}

// numbers returns a list as CUDA_VISIBLE_DEVICES has it. An empty one hides all GPUs.
func numbers(list []int) string {
	var texts []string
	for _, each := range list {
		texts = append(texts, strconv.Itoa(each))
	}
	return strings.Join(texts, ",")
}

// Strings returns an environment as a process gets it: NAME=VALUE, in the order of names.
func Strings(environment map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		all = append(all, name+"="+environment[name])
	}
	return all
}
