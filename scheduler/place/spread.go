package place

import (
	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/scheduler"
)

// Spread is how much slower a job is on GPUs that lie further apart than they need to: a model for
// simulations, not a measurement. A step of training takes 1 + AcrossNodes*skew when its GPUs lie
// on several nodes and 1 + (AcrossNodes+AcrossRacks)*skew when they lie in several racks, where
// skew is SkewOf the job's model: what one large message costs that has to pass the network before
// the next step. With its defaults a VGG-16 takes 1.7 times as long across nodes and a ResNet-50 9
// % longer, which is about what Tiresias's figure 6 shows. Speed 1 is the speed on the fewest nodes
// that would do.
type Spread struct {
	AcrossNodes, AcrossRacks float64
}

// DefaultSpread is Spread with the factors that its comment tells of.
var DefaultSpread = Spread{AcrossNodes: 1, AcrossRacks: 0.5}

// Speed is proportional to the GPUs, less what their distance costs.
func (s Spread) Speed(j *scheduler.Job, on cluster.Placement, nodes []cluster.Node) float64 {
	share := float64(len(on)) / float64(j.RequestedGPUs())
	if len(on) == 1 {
		return share
	}
	skew := SkewOf(j.Model())
	return share * s.step(skew, needNodes(j, len(on), nodes), 1) / s.step(skew, on.Nodes(), racksOf(on, nodes))
}

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

// needNodes tells whether one node could hold n GPUs of a job: 1, or else 2.
func needNodes(j *scheduler.Job, n int, nodes []cluster.Node) int {
	for i := range nodes {
		if nodes[i].GPUs >= n && (j.GPUType() == "" || j.GPUType() == nodes[i].GPUType) {
			return 1
		}
	}
	return 2
}

func racksOf(on cluster.Placement, nodes []cluster.Node) int {
	for _, gpu := range on {
		if nodes[gpu.Node].Rack != nodes[on[0].Node].Rack {
			return 2
		}
	}
	return 1
}
