package clusterfudge

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// nodes are three nodes: one with GPUs in each kind of use, one that is cordoned, one that is away.
func nodes() []*api.Node {
	gpu := func(change func(*api.GPU)) *api.GPU {
		g := &api.GPU{Name: "NVIDIA H100 80GB HBM3"}
		change(g)
		return g
	}
	free := func(*api.GPU) {}
	return []*api.Node{
		{Name: "a", State: "ready", UsedMillicpus: 1500, UsedMemoryBytes: 3 << 20, Inventory: &api.Inventory{
			Cpus: 8, MemoryBytes: 10 << 20, Gpus: []*api.GPU{
				gpu(free), gpu(func(g *api.GPU) { g.Launch = "l-1" }), gpu(func(g *api.GPU) { g.Foreign = 2 }),
				gpu(func(g *api.GPU) { g.Bad = "fell off the bus" }),
				{Name: "NVIDIA B200"},
			},
		}},
		{Name: "b", State: "ready", Cordoned: true, Shard: "red", Inventory: &api.Inventory{
			Cpus: 4, MemoryBytes: 5 << 20, Gpus: []*api.GPU{gpu(free)},
		}},
		{Name: "c", State: "unreachable", Cluster: "east", UsedMillicpus: 1000, Inventory: &api.Inventory{
			Cpus: 2, MemoryBytes: 1 << 20, Gpus: []*api.GPU{gpu(func(g *api.GPU) { g.Launch = "l-2" })},
		}},
	}
}

func TestResources(t *testing.T) {
	got := resourcesOfNodes(nodes())
	var want wire.ListResourcesResponse
	if err := prototext.Unmarshal([]byte(`
		total { cpus: 14 memory_mb: 16 gpu_h100: 6 } available { cpus: 6 memory_mb: 7 gpu_h100: 1 }
		clusters {
			name: "Unassigned" total_resources { cpus: 12 memory_mb: 15 gpu_h100: 5 }
			used_resources { cpus: 2 memory_mb: 3 gpu_h100: 1 } used_non_clusterfudge { gpu_h100: 1 }
			available_resources { cpus: 6 memory_mb: 7 gpu_h100: 1 }
			cordoned_resources { cpus: 4 memory_mb: 5 gpu_h100: 1 } offline_resources { gpu_h100: 1 }
			gpu_h100 {
				total { count: 5 hostnames: ["a", "b"] } used { count: 1 hostnames: "a" }
				used_non_clusterfudge { count: 1 hostnames: "a" } available { count: 1 hostnames: "a" }
				cordoned { count: 1 hostnames: "b" } offline { count: 1 hostnames: "a" }
			}
		}
		clusters {
			name: "east" total_resources { cpus: 2 memory_mb: 1 gpu_h100: 1 } used_resources {}
			used_non_clusterfudge {} available_resources {} cordoned_resources {}
			offline_resources { cpus: 2 memory_mb: 1 gpu_h100: 1 }
			gpu_h100 { total { count: 1 hostnames: "c" } offline { count: 1 hostnames: "c" } }
		}`), &want); err != nil {
		t.Fatal(err)
	}
	for _, c := range got.GetClusters() {
		if len(c.GetShardResources()) == 0 {
			t.Errorf("%s has no shards", c.GetName())
		}
		inShards := &wire.Resources{}
		for _, shard := range c.GetShardResources() {
			sum(inShards, shard.GetTotalResources())
		}
		if !proto.Equal(inShards, c.GetTotalResources()) {
			t.Errorf("the shards of %s have %v in all, it has %v", c.GetName(), inShards, c.GetTotalResources())
		}
		c.ShardResources = nil
	}
	if !proto.Equal(got, &want) {
		t.Errorf("got  %v\nwant %v", got, &want)
	}
}

// TestBurnSpec: GPU burn takes all GPUs of the nodes that are ready and allowed.
func TestBurnSpec(t *testing.T) {
	all := nodes()
	all = append(all, &api.Node{Name: "d", State: "ready", Inventory: &api.Inventory{Gpus: []*api.GPU{{}, {}, {}}}},
		&api.Node{Name: "e", State: "ready", Cluster: "east", Inventory: &api.Inventory{Gpus: []*api.GPU{{}}}})
	for _, test := range []struct {
		place launch.Place
		want  map[string]int
	}{
		{launch.Place{}, map[string]int{"burn-3": 2, "burn-1": 1}},
		{launch.Place{Cluster: "east"}, map[string]int{"burn-1": 1}},
		{launch.Place{Hostnames: []string{"a", "b"}}, map[string]int{"burn-3": 1}},
		{launch.Place{Hostnames: []string{"b"}}, map[string]int{}},
	} {
		spec, err := burnSpec(test.place, all)
		if (err != nil) != (len(test.want) == 0) {
			t.Errorf("%+v: %v", test.place, err)
		}
		got := map[string]int{}
		for _, job := range spec.Jobs {
			got[job.Name] = job.Replicas.Min
		}
		if len(got) != len(test.want) {
			t.Errorf("%+v: got %v, want %v", test.place, got, test.want)
		}
		for name, count := range test.want {
			if got[name] != count {
				t.Errorf("%+v: got %v, want %v", test.place, got, test.want)
			}
		}
	}
}
