package clusterfudge

import (
	"fmt"
	"math"

	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// unassigned is what the client's users call the cluster and the shard of nodes that have none.
const unassigned = "Unassigned"

// onlyJob is the name of the job of a request without jobs.
const onlyJob = "main"

// memoryUnit is what the wire counts memory in.
const memoryUnit = 1 << 20

// specOf translates a request. Values are checked by launch.Spec.Check; what has no place in a Spec
// is refused here.
func specOf(r *wire.CreateLaunchRequest) (launch.Spec, error) {
	spec := launch.Spec{
		Name: r.GetTitle(), Description: r.GetDescription(), Queue: queueOf(r.GetQueueingBehaviour()),
		Place: launch.Place{
			Cluster: named(r.GetCluster()), Shard: named(r.GetShard()), Hostnames: r.GetHostnames(),
			WholeNodes: r.GetNodeExclusivity() == wire.NodeExclusivity_NODE_EXCLUSIVITY_REQUIRE_ENTIRE_NODE,
		},
		Source: launch.Source{Git: r.GetGitRepo(), Branch: r.GetGitBranch(), Commit: r.GetGitCommit()},
	}
	jobs := r.GetJobs()
	if len(jobs) == 0 && len(r.GetCommand()) > 0 {
		jobs = []*wire.Job{{
			ShortName: onlyJob, Replicas: max(1, r.GetReplicas()),
			Processes: []*wire.Process{{Command: r.GetCommand(), ResourceRequirements: r.GetReplicaResources()}},
		}}
	}
	var wrong launch.Errors
	for i, each := range jobs {
		spec.Jobs = append(spec.Jobs, jobOf(fmt.Sprintf("jobs[%d]", i), each, &wrong))
	}
	if len(wrong) > 0 {
		return launch.Spec{}, wrong
	}
	return spec.Check()
}

// named returns the name of a cluster or shard; empty: any.
func named(text string) string {
	if text == unassigned {
		return ""
	}
	return text
}

// queueOf says what happens to a launch for which there is no room. Without a behaviour it is
// refused.
func queueOf(b *wire.QueueingBehaviour) launch.Queue {
	if b.GetQueueLaunch() {
		return launch.Wait
	}
	return launch.Refuse
}

// jobOf translates a job, and adds what is wrong with it.
func jobOf(field string, j *wire.Job, wrong *launch.Errors) launch.Job {
	replicas := int(j.GetReplicas())
	if replicas < 1 {
		*wrong = append(*wrong, launch.FieldError{
			Field: field + ".replicas", Value: fmt.Sprint(replicas), Problem: "want a number from 1",
		})
	}
	job := launch.Job{Name: j.GetShortName(), Replicas: launch.Replicas{Min: replicas, Max: replicas}}
	switch j.GetOnReplicaFailure().(type) {
	case *wire.Job_OnReplicaFailureOtherReplicasContinue:
		job.OnReplicaFailure = launch.KeepOthers
	case *wire.Job_OnReplicaFailureOtherReplicasAreStopped:
		job.OnReplicaFailure = launch.StopOthers
	}
	for i, each := range j.GetProcesses() {
		at := fmt.Sprintf("%s.processes[%d].resources", field, i)
		job.Processes = append(job.Processes, launch.Process{
			Command: each.GetCommand(), Resources: resourcesOf(at, each.GetResourceRequirements(), wrong),
		})
	}
	return job
}

// resourcesOf translates resources, and adds what is wrong with them.
func resourcesOf(field string, r *wire.Resources, wrong *launch.Errors) (out launch.Resources) {
	number := func(name string, value int32) uint64 {
		if value < 0 {
			*wrong = append(*wrong, launch.FieldError{
				Field: field + "." + name, Value: fmt.Sprint(value), Problem: "want a number from 0",
			})
			return 0
		}
		return uint64(value)
	}
	out.CPUs = launch.CPUs(number("cpus", r.GetCpus()) * 1000)
	out.Memory = launch.Bytes(number("memory_mb", r.GetMemoryMb()) * memoryUnit)
	for i := range models {
		m := &models[i]
		count := int(number(string(m.count.Name()), int32(m.of(r)))) // it was one
		if count == 0 {
			continue
		}
		if out.GPUs > 0 {
			*wrong = append(*wrong, launch.FieldError{
				Field:   field + "." + string(m.count.Name()),
				Problem: fmt.Sprintf("a process gets GPUs of one model, and it asks for %s, too", out.GPUModels[0]),
			})
			continue
		}
		out.GPUs, out.GPUModels = count, []string{m.name}
	}
	return out
}

// resourcesView translates resources for the client. GPUs of no one model of the wire are not in
// it.
func resourcesView(r launch.Resources) *wire.Resources {
	view := &wire.Resources{
		Cpus: clamp((uint64(r.CPUs) + 999) / 1000), MemoryMb: clamp(uint64(r.Memory) / memoryUnit),
	}
	if r.GPUs > 0 && len(r.GPUModels) == 1 {
		if m := modelOf(r.GPUModels[0]); m != nil {
			m.add(view, r.GPUs)
		}
	}
	return view
}

// clamp returns a number as the wire has it.
func clamp(n uint64) int32 { return int32(min(n, math.MaxInt32)) }
