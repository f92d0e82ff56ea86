package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/messages"
)

// node is a node for the page.
type node struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Reason   string   `json:"reason,omitempty"`
	Cordoned bool     `json:"cordoned"`
	Draining bool     `json:"draining"`
	Place    string   `json:"place,omitempty"` // cluster and shard
	Labels   []string `json:"labels,omitempty"`
	CPUs     uint32   `json:"cpus"`
	Memory   uint64   `json:"memory"`
	System   string   `json:"system,omitempty"`
	Address  string   `json:"address,omitempty"`
	Seen     int64    `json:"seen"`
	Trouble  string   `json:"trouble,omitempty"` // why phosd does not answer
	GPUs     []gpu    `json:"gpus"`
}

// gpu is a GPU for the page.
type gpu struct {
	Index uint32 `json:"index"`
	Model string `json:"model"`
	// State is "free", "ours", "foreign", "cordoned", "bad" or "unreachable".
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	Memory uint64 `json:"memory"`
	// Launch has the GPU. Name is that of a launch that the caller may see.
	Launch string `json:"launch,omitempty"`
	Name   string `json:"name,omitempty"`
	Number uint32 `json:"number,omitempty"`
}

// gpuState returns what a GPU is to the scheduler. What is worse comes first.
func gpuState(n *api.Node, g *api.GPU) string {
	switch {
	case n.GetState() != "ready":
		return "unreachable"
	case g.GetBad() != "":
		return "bad"
	case g.GetLaunch() != "":
		return "ours"
	case g.GetForeign() > 0:
		return "foreign"
	case n.GetCordoned() || n.GetDraining():
		return "cordoned"
	}
	return "free"
}

// nodesOnPage is how many nodes one answer has.
const nodesOnPage = 60

// nodes answers with one page of nodes, by name, and the GPUs of all.
func (s *Server) nodes(q *request) (any, error) {
	found, err := s.parts.Cluster.ListNodes(q.ctx, &api.ListNodesRequest{})
	if err != nil {
		return nil, err
	}
	all := found.GetNodes()
	slices.SortFunc(all, func(a, b *api.Node) int { return cmp.Compare(a.GetName(), b.GetName()) })
	skip, err := q.number("skip", 0)
	if err != nil {
		return nil, err
	}
	from := min(int(skip), len(all))
	shown := all[from:min(from+nodesOnPage, len(all))]
	names, err := s.holders(q, shown)
	if err != nil {
		return nil, err
	}
	reply := struct {
		Nodes []node         `json:"nodes"`
		Total int            `json:"total"`
		Skip  int            `json:"skip"`
		Page  int            `json:"page"`
		GPUs  map[string]int `json:"gpus"`
	}{make([]node, 0, len(shown)), len(all), from, nodesOnPage, countGPUs(all)}
	for _, each := range shown {
		reply.Nodes = append(reply.Nodes, nodeOf(each, names))
	}
	return reply, nil
}

// countGPUs returns how many GPUs are in each state.
func countGPUs(nodes []*api.Node) map[string]int {
	counts := map[string]int{}
	for _, n := range nodes {
		for _, g := range n.GetInventory().GetGpus() {
			counts[gpuState(n, g)]++
		}
	}
	return counts
}

// holders returns the launches that have GPUs of some nodes, as far as the caller may see them.
func (s *Server) holders(q *request, nodes []*api.Node) (map[string]*api.Launch, error) {
	wanted := &api.ListRequest{Ended: true}
	for _, n := range nodes {
		for _, g := range n.GetInventory().GetGpus() {
			if id := g.GetLaunch(); id != "" && !slices.Contains(wanted.Ids, id) {
				wanted.Ids = append(wanted.Ids, id)
			}
		}
	}
	names := map[string]*api.Launch{}
	if len(wanted.GetIds()) == 0 {
		return names, nil
	}
	found, err := s.parts.Launches.List(q.ctx, wanted)
	for _, each := range found.GetLaunches() {
		names[each.GetId()] = each
	}
	return names, err
}

// nodeOf converts a node.
func nodeOf(n *api.Node, names map[string]*api.Launch) node {
	has := n.GetInventory()
	v := node{
		Name: plain(n.GetName()), State: n.GetState(), Reason: plain(n.GetReason()), Cordoned: n.GetCordoned(),
		Draining: n.GetDraining(), Place: plain(strings.Trim(n.GetCluster()+"/"+n.GetShard(), "/")), CPUs: has.GetCpus(),
		Memory: has.GetMemoryBytes(), System: plain(has.GetOs()), Address: plain(n.GetAddress()), Seen: n.GetSeenUnixMs(),
		Trouble: plain(has.GetPhosdError()), GPUs: []gpu{},
	}
	for name, value := range n.GetLabels() {
		v.Labels = append(v.Labels, plain(name+"="+value))
	}
	slices.Sort(v.Labels)
	for _, g := range has.GetGpus() {
		v.GPUs = append(v.GPUs, gpuOf(n, g, names[g.GetLaunch()]))
	}
	return v
}

// gpuOf converts a GPU. A launch that the caller may not see has no name here.
func gpuOf(n *api.Node, g *api.GPU, holder *api.Launch) gpu {
	v := gpu{
		Index: g.GetIndex(), Model: plain(g.GetName()), State: gpuState(n, g),
		Reason: plain(cmp.Or(g.GetBad(), messages.ForeignUse(g))),
		Memory: g.GetMemoryBytes(),
	}
	if holder != nil {
		v.Launch, v.Name, v.Number = holder.GetId(), label(holder), holder.GetNumber()
	}
	return v
}

// cluster answers with the cluster at a glance.
func (s *Server) cluster(q *request) (any, error) {
	found, err := s.parts.Cluster.Status(q.ctx, &api.StatusRequest{})
	if err != nil {
		return nil, err
	}
	return struct {
		ID        string            `json:"id"`
		Version   string            `json:"version"`
		Leader    string            `json:"leader"`
		Scheduler string            `json:"scheduler"`
		Launches  map[string]uint32 `json:"launches"`
		Nodes     int               `json:"nodes"`
		GPUs      map[string]int    `json:"gpus"`
		Warnings  []string          `json:"warnings"`
		Now       int64             `json:"now"`
	}{
		found.GetClusterId(), found.GetVersion(), found.GetLeader(), found.GetScheduler(), found.GetLaunches(),
		len(found.GetNodes()), countGPUs(found.GetNodes()), found.GetWarnings(), time.Now().UnixMilli(),
	}, nil
}

// actOnNode cordons a node, or opens it again.
func (s *Server) actOnNode(q *request) (any, error) {
	if err := q.mayChange(); err != nil {
		return nil, err
	}
	cordon := q.PathValue("act") == "cordon"
	if !cordon && q.PathValue("act") != "uncordon" {
		return nil, &api.Error{Text: "a node can be cordoned and uncordoned", Err: api.ErrNotFound}
	}
	changed, err := s.parts.Cluster.ChangeNode(q.ctx, &api.ChangeNodeRequest{Name: q.PathValue("name"), Cordoned: &cordon})
	if err != nil {
		return nil, err
	}
	return nodeOf(changed, nil), nil
}
