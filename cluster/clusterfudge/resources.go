package clusterfudge

import (
	"context"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// ListResources returns what the cluster has, by the names that nodes have for cluster and shard,
// and the processes that use it, as far as the caller may see them.
func (s *Service) ListResources(ctx context.Context, _ *wire.ListResourcesRequest) (*wire.ListResourcesResponse, error) {
	return as(ctx, s, func(c client) (*wire.ListResourcesResponse, error) {
		nodes, err := c.cluster.ListNodes(ctx, &api.ListNodesRequest{})
		if err != nil {
			return nil, err
		}
		reply := resourcesOfNodes(nodes.GetNodes())
		reply.ResourceConsumers, err = c.consumers(ctx)
		return reply, err
	})
}

// maxConsumers is how many processes are listed that use something.
const maxConsumers = 1000

// consumers returns processes that run.
func (c client) consumers(ctx context.Context) (found []*wire.Command, err error) {
	running, err := c.launches.List(ctx, &api.ListRequest{})
	if err != nil {
		return nil, err
	}
	for _, l := range running.GetLaunches() {
		if launch.Phase(l.GetPhase()) != launch.Running || len(found) >= maxConsumers {
			continue
		}
		k, err := c.ask(ctx, l.GetId())
		if err != nil {
			return nil, err
		}
		for _, r := range k.GetReplicas() {
			if r.GetPhase() == "running" {
				commands, _ := k.processes(r)
				found = append(found, commands...)
			}
		}
	}
	return found[:min(len(found), maxConsumers)], nil
}

// resourcesOfNodes sums what nodes have.
func resourcesOfNodes(nodes []*api.Node) *wire.ListResourcesResponse {
	reply := &wire.ListResourcesResponse{Total: &wire.Resources{}, Available: &wire.Resources{}}
	for _, n := range nodes {
		cluster := child(&reply.Clusters, shownName(n.GetCluster()))
		shard := child(&cluster.ShardResources, shownName(n.GetShard()))
		for _, into := range []*wire.ClusterResources{cluster, shard} {
			addNode(into, n)
		}
	}
	for _, c := range reply.GetClusters() {
		sum(reply.GetTotal(), c.GetTotalResources())
		sum(reply.GetAvailable(), c.GetAvailableResources())
	}
	return reply
}

// child returns the entry with a name, which it adds in the order of names if there is none.
func child(list *[]*wire.ClusterResources, name string) *wire.ClusterResources {
	at, found := slices.BinarySearchFunc(*list, name, func(c *wire.ClusterResources, name string) int {
		return strings.Compare(c.GetName(), name)
	})
	if !found {
		*list = slices.Insert(*list, at, &wire.ClusterResources{
			Name: name, TotalResources: &wire.Resources{}, UsedResources: &wire.Resources{},
			UsedNonClusterfudge: &wire.Resources{}, AvailableResources: &wire.Resources{},
			CordonedResources: &wire.Resources{}, OfflineResources: &wire.Resources{},
		})
	}
	return (*list)[at]
}

// sum adds resources to others.
func sum(into, more *wire.Resources) {
	into.Cpus = clamp(uint64(into.GetCpus()) + uint64(more.GetCpus()))
	into.MemoryMb = clamp(uint64(into.GetMemoryMb()) + uint64(more.GetMemoryMb()))
	for i := range models {
		if n := models[i].of(more); n > 0 {
			models[i].add(into, n)
		}
	}
}

// use is what is done with a part of a node. Each part is counted once, beside the total.
type use int

const (
	available use = iota
	used
	foreign
	cordoned
	offline
)

// counted returns the resources of a cluster that count a use.
func counted(c *wire.ClusterResources, u use) *wire.Resources {
	return [...]*wire.Resources{
		c.GetAvailableResources(), c.GetUsedResources(), c.GetUsedNonClusterfudge(), c.GetCordonedResources(),
		c.GetOfflineResources(),
	}[u]
}

// rest is the use of what no launch has on a node.
func rest(n *api.Node) use {
	switch {
	case n.GetState() != "ready":
		return offline
	case n.GetCordoned(), n.GetDraining():
		return cordoned
	}
	return available
}

// useOf is the use of a GPU of a node.
func useOf(n *api.Node, g *api.GPU) use {
	unused := rest(n)
	switch {
	case unused == offline, g.GetBad() != "":
		return offline
	case g.GetLaunch() != "":
		return used
	case g.GetForeign() > 0:
		return foreign
	}
	return unused
}

// addNode adds what a node has.
func addNode(c *wire.ClusterResources, n *api.Node) {
	has := n.GetInventory()
	inUse := [2]uint64{(n.GetUsedMillicpus() + 999) / 1000, n.GetUsedMemoryBytes() / memoryUnit}
	all := [2]uint64{uint64(has.GetCpus()), has.GetMemoryBytes() / memoryUnit}
	unused := rest(n)
	if unused == offline {
		inUse = [2]uint64{}
	}
	inUse = [2]uint64{min(inUse[0], all[0]), min(inUse[1], all[1])}
	for into, amount := range map[*wire.Resources][2]uint64{
		c.GetTotalResources(): all, c.GetUsedResources(): inUse,
		counted(c, unused): {all[0] - inUse[0], all[1] - inUse[1]},
	} {
		sum(into, &wire.Resources{Cpus: clamp(amount[0]), MemoryMb: clamp(amount[1])})
	}
	for _, g := range has.GetGpus() {
		if m := modelOf(g.GetName()); m != nil {
			addGPU(c, n.GetName(), m, useOf(n, g))
		}
	}
}

// addGPU adds a GPU of a node.
func addGPU(c *wire.ClusterResources, node string, m *model, u use) {
	m.add(c.GetTotalResources(), 1)
	m.add(counted(c, u), 1)
	s := m.statusesOf(c)
	addHost(&s.Total, node)
	addHost([...]**wire.ResourceCountWithHostnames{
		&s.Available, &s.Used, &s.UsedNonClusterfudge, &s.Cordoned, &s.Offline,
	}[u], node)
}

// addHost counts a GPU of a node.
func addHost(into **wire.ResourceCountWithHostnames, node string) {
	if *into == nil {
		*into = &wire.ResourceCountWithHostnames{}
	}
	(*into).Count++
	if !slices.Contains((*into).GetHostnames(), node) {
		(*into).Hostnames = append((*into).Hostnames, node)
	}
}
