package replan

import (
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Transfer is a layer that a node is sent, in stripes from all nodes that have it.
type Transfer struct {
	Layer   int            `json:"layer"`
	To      cluster.NodeID `json:"to"`
	Stripes []Stripe       `json:"stripes"`
}

// Stripe is a part of a layer's state: Bytes from Offset on.
type Stripe struct {
	From   cluster.NodeID `json:"from"`
	Offset int64          `json:"offset"`
	Bytes  int64          `json:"bytes"`
}

// Lost is a layer that no remaining node has. A checkpoint must supply it to all of these nodes.
type Lost struct {
	Layer int              `json:"layer"`
	Bytes int64            `json:"bytes"`
	To    []cluster.NodeID `json:"to"`
}

// holdings returns the layers that each node of a plan has.
func holdings(plan *pipeline.Plan) map[cluster.NodeID]runs {
	holds := map[cluster.NodeID]runs{}
	for _, each := range plan.Pipelines {
		t := plan.Template(each.Template)
		for place, node := range each.Nodes {
			holds[node] = t.NodeLayers(place)
		}
	}
	return holds
}

// holders returns, for each layer, the nodes that it can be copied from.
func holders(plan *pipeline.Plan, c *Change, holds map[cluster.NodeID]runs) [][]cluster.NodeID {
	all := make([][]cluster.NodeID, plan.Profile.Len())
	for _, node := range plan.Nodes() {
		if _, dead := slices.BinarySearch(c.Dead, node); dead {
			continue
		}
		for _, run := range holds[node] {
			for layer := run[0]; layer < run[1]; layer++ {
				all[layer] = append(all[layer], node)
			}
		}
	}
	return all
}

// planTransfers adds what must be copied so that the plan's nodes have what they need.
func (r *Result) planTransfers(before *pipeline.Plan, c *Change) {
	holds := holdings(before)
	from := holders(before, c, holds)
	lost := make([][]cluster.NodeID, before.Profile.Len())
	needs := holdings(r.Plan)
	for _, node := range r.Plan.Nodes() {
		for _, layer := range missing(needs[node], holds[node]) {
			if len(from[layer]) == 0 {
				lost[layer] = append(lost[layer], node)
				continue
			}
			bytes := before.Profile.Layers[layer].StateBytes
			r.Transfers = append(r.Transfers, Transfer{layer, node, stripes(bytes, from[layer])})
			r.Bytes += bytes
		}
	}
	for layer, to := range lost {
		if len(to) > 0 {
			r.Lost = append(r.Lost, Lost{layer, before.Profile.Layers[layer].StateBytes, to})
		}
	}
}

// stripes divides a layer's bytes over the nodes that have it, as evenly as possible.
func stripes(bytes int64, from []cluster.NodeID) (all []Stripe) {
	for i, node := range from {
		begin, end := bytes*int64(i)/int64(len(from)), bytes*int64(i+1)/int64(len(from))
		if begin < end || bytes == 0 && i == 0 {
			all = append(all, Stripe{node, begin, end - begin})
		}
	}
	return all
}

// maxCopying is the longest time that Copying returns. It can be added to others.
const maxCopying = 10_000 * time.Hour

// Copying returns how long the busiest link needs for all transfers, in either direction; at most
// 10,000 hours.
func (r *Result) Copying(bytesPerSecond int64) time.Duration {
	in, out := map[cluster.NodeID]int64{}, map[cluster.NodeID]int64{}
	var most int64
	for _, each := range r.Transfers {
		for _, stripe := range each.Stripes {
			in[each.To] += stripe.Bytes
			out[stripe.From] += stripe.Bytes
			most = max(most, in[each.To], out[stripe.From])
		}
	}
	return time.Duration(min(math.Ceil(float64(most)/float64(bytesPerSecond)*1e9), float64(maxCopying)))
}
