package fit

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/cluster/launch"
)

// Need is what replicas of a launch want that are placed at once. It does not change, so that the
// scheduler's goroutine may read it.
type Need struct {
	Launch string
	Place  launch.Place
	// RefusesToWait means that it ends if there is no room for it now.
	RefusesToWait bool
	// OwnNetwork means that its replicas have a network of their own.
	OwnNetwork bool
	Replicas   []Replica
}

// Replica is what one of them wants of its node.
type Replica struct {
	Number    int
	GPUs      int
	Millicpus uint64
	Memory    uint64
	// Models and GPUMemory say which GPUs will do, for each process that asks for some.
	Models    [][]string
	GPUMemory uint64
	Ports     int
	// Nodes are those with its image on their own disks; none: it begins, or all nodes can read it.
	// They are preferred, and others must be able to fetch it. HadGPUs are those that the image was
	// made with: some nodes cannot give it others.
	Nodes []string
	// Stays means that other nodes could not restore the image.
	Stays   bool
	HadGPUs []int
}

// NeedOf returns what some replicas of a launch want.
func NeedOf(id string, s *launch.State, replicas []int) Need {
	n := Need{Launch: id, Place: s.Spec.Place, RefusesToWait: s.Spec.Queue == launch.Refuse, OwnNetwork: s.Spec.Network == launch.OwnNetwork}
	for _, i := range replicas {
		n.Replicas = append(n.Replicas, ReplicaOf(&s.Spec, &s.Replicas[i], i))
	}
	return n
}

// ReplicaOf sums what the processes of a replica ask for.
func ReplicaOf(spec *launch.Spec, r *launch.Replica, number int) Replica {
	n := Replica{Number: number, Ports: 1}
	for _, process := range spec.Jobs[r.Job].Processes {
		resources := &process.Resources
		n.GPUs += resources.GPUs
		n.Millicpus += uint64(resources.CPUs)
		n.Memory += uint64(resources.Memory)
		n.Ports += len(process.Ports)
		n.GPUMemory = max(n.GPUMemory, uint64(resources.GPUMemory))
		if resources.GPUs > 0 && len(resources.GPUModels) > 0 {
			n.Models = append(n.Models, resources.GPUModels)
		}
	}
	return n
}

// allGPUs returns how many GPUs are wanted in all.
func (n Need) allGPUs() (sum int) {
	for _, r := range n.Replicas {
		sum += r.GPUs
	}
	return sum
}

// Constraint returns what distinguishes this need from others that want as many GPUs.
func (n Need) Constraint() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%+v %v", n.Place, n.OwnNetwork)
	for _, r := range n.Replicas {
		r.Number, r.Ports = 0, 0
		fmt.Fprintf(&text, " %+v", r)
	}
	return text.String()
}

// Units returns how many of its units the scheduler shall give: GPUs, or one place for each
// replica.
func (n Need) Units(gpus bool) int {
	if gpus {
		return n.allGPUs()
	}
	return len(n.Replicas)
}

// Units returns the same for one replica.
func (r Replica) Units(gpus bool) int {
	if gpus {
		return r.GPUs
	}
	return 1
}

// Takes reports whether a GPU will do for a replica.
func (r Replica) Takes(name string, memory uint64) bool {
	if memory < r.GPUMemory {
		return false
	}
	for _, models := range r.Models {
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
