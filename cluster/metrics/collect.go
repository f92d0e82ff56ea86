package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

var (
	describeLeads    = describe("phos_controller_leads", "1 if this controller leads.")
	describeEpoch    = describe("phos_controller_epoch", "Number of the leadership.")
	describeLaunches = describe("phos_launches", "Launches by state.", "state")
	describeDepth    = describe("phos_queue_depth", "Launches that are queued for places.")
	describeNodes    = describe("phos_nodes", "Nodes by state.", "state")
	describeGPUs     = describe("phos_gpus", "GPUs of all nodes by state: free, ours, foreign, cordoned, bad or offline.",
		"state", "model")
	describeSeen = describe("phos_node_last_seen_timestamp_seconds", "When a node renewed its lease last.", "node")
)

// scrapeTime is how long the leader may take to answer.
const scrapeTime = 5 * time.Second

// phases are those of a launch: each has a number, also 0.
var phases = []launch.Phase{
	launch.Waiting, launch.Queued, launch.Running, launch.Stopping, launch.Suspended, launch.Ended,
}

// Describe is empty: which numbers there are depends on the cluster.
func (c *Controller) Describe(chan<- *prometheus.Desc) {}

// Collect asks the leader.
func (c *Controller) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	out := output(to)
	status, err := c.source(ctx)
	out.gauge(describeLeads, truth(err == nil))
	if err != nil {
		return
	}
	out.gauge(describeEpoch, float64(status.GetEpoch()))
	for _, phase := range phases {
		out.gauge(describeLaunches, float64(status.GetLaunches()[string(phase)]), string(phase))
	}
	out.gauge(describeDepth, float64(status.GetLaunches()[string(launch.Queued)]))
	collectNodes(out, status.GetNodes())
}

// collectNodes yields the numbers of nodes and their GPUs.
func collectNodes(out output, nodes []*api.Node) {
	states := map[string]int{}
	gpus := map[[2]string]int{}
	for _, n := range nodes {
		states[n.GetState()]++
		out.gauge(describeSeen, float64(n.GetSeenUnixMs())/1000, n.GetName())
		for _, g := range n.GetInventory().GetGpus() {
			gpus[[2]string{gpuState(n, g), g.GetName()}]++
		}
	}
	for state, count := range states {
		out.gauge(describeNodes, float64(count), state)
	}
	for key, count := range gpus {
		out.gauge(describeGPUs, float64(count), key[0], key[1])
	}
}

// gpuState returns what a GPU is there for. What is broken comes first, and then the launch that
// has it.
func gpuState(n *api.Node, g *api.GPU) string {
	switch {
	case g.GetBad() != "":
		return "bad"
	case g.GetLaunch() != "":
		return "ours"
	case n.GetState() != "ready":
		return "offline"
	case g.GetForeign() > 0:
		return "foreign"
	case n.GetCordoned() || n.GetDraining():
		return "cordoned"
	}
	return "free"
}
