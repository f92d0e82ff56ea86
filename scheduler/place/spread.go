package place

import (
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Spread models how much slower a job is on GPUs that are further apart than necessary; it is an
// assumption for simulations, not a measurement. A training step takes 1 + AcrossNodes*skew if its
// GPUs are on several nodes and 1 + (AcrossNodes+AcrossRacks)*skew if they are in several racks,
// where skew is SkewOf the job's model: the cost of one large message that must cross the network
// before the next step. With the defaults a VGG-16 takes 1.7 times as long across nodes and a
// ResNet-50 9 % longer, roughly as in Tiresias's figure 6. Speed 1 is the speed on the fewest
// sufficient nodes.
type Spread struct {
	AcrossNodes, AcrossRacks float64
}

// DefaultSpread has the factors described at Spread.
var DefaultSpread = Spread{AcrossNodes: 1, AcrossRacks: 0.5}

// Speed is proportional to the number of GPUs, less the cost of their distance.
func (s Spread) Speed(j *scheduler.Job, on cluster.Placement, nodes []cluster.Node) float64 {
	share := float64(len(on)) / float64(j.RequestedGPUs())
	if len(on) == 1 {
		return share
	}
	skew := SkewOf(j.Model())
	return share * s.step(skew, needNodes(j, len(on), nodes), 1) / s.step(skew, on.Nodes(), racksOf(on, nodes))
}

// step returns the relative time of a training step.
func (s Spread) step(skew float64, nodes, racks int) float64 {
	step := 1.0
	if nodes > 1 {
		step += s.AcrossNodes * skew
	}
	if racks > 1 {
		step += s.AcrossRacks * skew
	}
	return step
}

// needNodes returns 1 if one node could hold n GPUs of a job, else 2.
func needNodes(j *scheduler.Job, n int, nodes []cluster.Node) int {
	for i := range nodes {
		if nodes[i].GPUs >= n && (j.GPUType() == "" || j.GPUType() == nodes[i].GPUType) {
			return 1
		}
	}
	return 2
}

// racksOf returns 1 if the placement is in one rack, else 2.
func racksOf(on cluster.Placement, nodes []cluster.Node) int {
	for _, gpu := range on {
		if nodes[gpu.Node].Rack != nodes[on[0].Node].Rack {
			return 2
		}
	}
	return 1
}
