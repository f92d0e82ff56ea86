package progress

import (
	"errors"
	"maps"
	"slices"

	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/cluster/pipeline/ways"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Loss is what the loss of one rank would do, or of all ranks of a machine at once.
type Loss struct {
	Ranks []int `json:"ranks"`
	// Host is the machine, if it has several ranks and all of them are lost.
	Host string `json:"host,omitempty"`
	// Bytes of layers would be copied, and an iteration would take as long.
	Bytes       int64 `json:"bytes"`
	IterationNS int64 `json:"iteration_ns"`
	// Faults is how many more ranks could be lost at once after that.
	Faults int `json:"faults"`
	// Layers would be on no rank any more.
	Layers []int `json:"layers,omitempty"`
	// Problem says why the training could not go on; empty if it could.
	Problem string `json:"problem,omitempty"`
}

// mostRanks bounds for how many ranks the losses are worked out.
const mostRanks = 256

// ErrManyRanks means that there are too many ranks to work out what the loss of each would do.
var ErrManyRanks = errors.New("there are too many ranks to say what the loss of each would do: pos_cli plan fail says it of some")

// Next returns what the loss of each rank, and of each machine that has several, would do, as
// phos.pipeline would go on.
func (s *Status) Next() ([]Loss, error) {
	nodes := s.Plan.Nodes()
	if len(nodes) > mostRanks {
		return nil, ErrManyRanks
	}
	all := make([]Loss, 0, len(nodes))
	hosts := map[string][]cluster.NodeID{}
	for _, node := range nodes {
		all = append(all, s.without(node))
		host := s.Of(node).Host
		hosts[host] = append(hosts[host], node)
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if on := hosts[host]; host != "" && len(on) > 1 && len(on) < len(nodes) {
			loss := s.without(on...)
			loss.Host = host
			all = append(all, loss)
		}
	}
	return all, nil
}

// without returns what the loss of ranks at once would do. Where too few are left for as many
// copies as are wanted, there are fewer.
func (s *Status) without(nodes ...cluster.NodeID) Loss {
	var loss Loss
	for _, node := range nodes {
		loss.Ranks = append(loss.Ranks, s.Nodes[node])
	}
	var last error
	left := len(s.Plan.Nodes()) - len(nodes)
	for faults := max(0, min(s.Faults, left/s.Plan.Smallest()-1)); faults >= 0; faults-- {
		plan := *s.Plan
		plan.Spec.Faults = faults
		found, err := ways.Choose(ways.All, &plan, replan.Change{Dead: nodes}, ways.Usual)
		if err != nil {
			last = err
			continue
		}
		r := found[0].Result
		loss.Bytes, loss.IterationNS, loss.Faults = r.Bytes, r.Plan.IterationTime(), faults
		for _, each := range r.Lost {
			loss.Layers = append(loss.Layers, each.Layer)
		}
		return loss
	}
	loss.Problem = "there would be no plan"
	if last != nil {
		loss.Problem = last.Error()
	}
	return loss
}
