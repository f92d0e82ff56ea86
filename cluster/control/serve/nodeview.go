package serve

import (
	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/control"
)

// nodeViews returns nodes for people.
func nodeViews(nodes []control.NodeNow) (views []*api.Node) {
	for _, n := range nodes {
		views = append(views, nodeView(n))
	}
	return views
}

// nodeView returns a node for people.
func nodeView(n control.NodeNow) *api.Node {
	v := &api.Node{
		Name: n.Name, State: n.State, Cordoned: n.Cordoned, Draining: n.Draining,
		Cluster: n.Cluster, Shard: n.Shard, Labels: n.Labels, Address: n.Address, Version: n.Version, BootId: n.BootID,
		SeenUnixMs: unixMS(n.Seen), Launches: n.Launches,
		UsedMillicpus: n.Millicpus, UsedMemoryBytes: n.Memory,
		Inventory: &api.Inventory{
			Cpus: uint32(n.Inventory.CPUs), MemoryBytes: n.Inventory.MemoryBytes, Os: n.Inventory.OS,
			Kernel: n.Inventory.Kernel, PhosdVersion: n.Inventory.Phosd, PhosdError: n.Inventory.PhosdError,
		},
	}
	for _, g := range n.Inventory.GPUs {
		v.Inventory.Gpus = append(v.Inventory.Gpus, &api.GPU{
			Index: uint32(g.Index), Name: g.Name, Uuid: g.UUID, MemoryBytes: g.MemoryBytes,
			Foreign: uint32(g.Foreign), Bad: g.Bad, Software: g.Software, Launch: n.Users[g.Index],
		})
	}
	return v
}
