package control

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/cluster/launch"
)

// need is what a part wants. It does not change, so that the scheduler's goroutine may read it.
type need struct {
	launch   string
	place    launch.Place
	replicas []replicaNeed
}

// replicaNeed is what one replica wants of its node.
type replicaNeed struct {
	replica   int
	gpus      int
	millicpus uint64
	memory    uint64
	// models and gpuMemory say which GPUs will do, for each process that asks for some.
	models    [][]string
	gpuMemory uint64
	ports     int
}

// needOf returns what a part wants.
func needOf(p *part) need {
	spec := &p.entry.State.Spec
	n := need{launch: p.entry.ID, place: spec.Place}
	for _, i := range p.replicas {
		n.replicas = append(n.replicas, replicaNeedOf(spec, &p.entry.State.Replicas[i], i))
	}
	return n
}

// replicaNeedOf sums what the processes of a replica ask for.
func replicaNeedOf(spec *launch.Spec, r *launch.Replica, index int) replicaNeed {
	n := replicaNeed{replica: index, ports: 1}
	for _, process := range spec.Jobs[r.Job].Processes {
		resources := &process.Resources
		n.gpus += resources.GPUs
		n.millicpus += uint64(resources.CPUs)
		n.memory += uint64(resources.Memory)
		n.ports += len(process.Ports)
		n.gpuMemory = max(n.gpuMemory, uint64(resources.GPUMemory))
		if resources.GPUs > 0 && len(resources.GPUModels) > 0 {
			n.models = append(n.models, resources.GPUModels)
		}
	}
	return n
}

// gpus returns how many GPUs a part wants in all.
func (n need) gpus() (sum int) {
	for _, r := range n.replicas {
		sum += r.gpus
	}
	return sum
}

// constraint returns what distinguishes this need from others that want as many GPUs.
func (n need) constraint() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%+v", n.place)
	for _, r := range n.replicas {
		r.replica, r.ports = 0, 0
		fmt.Fprintf(&text, " %+v", r)
	}
	return text.String()
}

// units returns how many of its units the scheduler shall give: GPUs, or one place for each
// replica.
func (n need) units(gpus bool) int {
	if gpus {
		return n.gpus()
	}
	return len(n.replicas)
}

// units returns the same for one replica.
func (r replicaNeed) units(gpus bool) int {
	if gpus {
		return r.gpus
	}
	return 1
}

// takes reports whether a GPU will do for a replica.
func (r replicaNeed) takes(name string, memory uint64) bool {
	if memory < r.gpuMemory {
		return false
	}
	for _, models := range r.models {
		if !anyModel(models, name) {
			return false
		}
	}
	return true
}

// anyModel reports whether a GPU is of one of some models.
func anyModel(models []string, name string) bool {
	for _, model := range models {
		if launch.IsModel(model, name) {
			return true
		}
	}
	return false
}
