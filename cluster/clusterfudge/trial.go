package clusterfudge

import (
	"context"
	_ "embed" // the program of GPU burn
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/archive"
	"github.com/phos-gpu/phos/cluster/clusterfudge/wire"
	"github.com/phos-gpu/phos/cluster/launch"
)

// LaunchHelloWorld launches a program that says where it runs: one replica for each node that is
// named, or one.
func (s *Service) LaunchHelloWorld(
	ctx context.Context, r *wire.LaunchHelloWorldRequest,
) (*wire.LaunchHelloWorldResponse, error) {
	spec := trial("hello-world", "says where it runs", placeOf(r.GetCluster(), r.GetShard(), r.GetHostnames()))
	count := max(1, len(r.GetHostnames()))
	spec.Jobs = []launch.Job{{
		Name: "hello", Replicas: launch.Replicas{Min: count, Max: count},
		Processes: []launch.Process{{Command: []string{
			"/bin/sh", "-c", `echo "hello world from replica $PHOS_REPLICA of $PHOS_REPLICAS on $PHOS_NODE"`,
		}}},
	}}
	return as(ctx, s, func(c client) (*wire.LaunchHelloWorldResponse, error) {
		created, err := c.launch(ctx, spec, nil)
		return &wire.LaunchHelloWorldResponse{Launch: created}, err
	})
}

// burnTime is for how long GPU burn computes, in seconds.
const burnTime = 60

// burnProgram computes on all GPUs of its replica, and checks the results.
//
//go:embed burn.py
var burnProgram []byte

// LaunchGpuBurn launches a program that keeps the GPUs of nodes busy for a minute, and compares
// what they compute: on all GPUs of the nodes that are named, or of all that are ready.
func (s *Service) LaunchGpuBurn(ctx context.Context, r *wire.LaunchGpuBurnRequest) (*wire.LaunchGpuBurnResponse, error) {
	place := placeOf(r.GetCluster(), r.GetShard(), r.GetHostnames())
	return as(ctx, s, func(c client) (*wire.LaunchGpuBurnResponse, error) {
		nodes, err := c.cluster.ListNodes(ctx, &api.ListNodesRequest{})
		if err != nil {
			return nil, err
		}
		spec, err := burnSpec(place, nodes.GetNodes())
		if err != nil {
			return nil, err
		}
		packed, err := archive.Files(map[string][]byte{"burn.py": burnProgram})
		if err != nil {
			return nil, err
		}
		code, err := archive.Send(ctx, c.launches, packed)
		if err != nil {
			return nil, err
		}
		created, err := c.launch(ctx, spec, code)
		return &wire.LaunchGpuBurnResponse{Launch: created}, err
	})
}

// trial returns a launch for trying a cluster, without jobs. It waits for its place.
func trial(name, description string, place launch.Place) launch.Spec {
	return launch.Spec{Name: name, Description: description, Place: place, Queue: launch.Wait}
}

// placeOf restricts a launch to nodes.
func placeOf(cluster, shard string, hostnames []string) launch.Place {
	return launch.Place{Cluster: named(cluster), Shard: named(shard), Hostnames: hostnames}
}

// burnSpec returns a launch with a replica for each node that a place allows, which takes all its
// GPUs that can be used. Nodes with the same number of them are one job.
func burnSpec(place launch.Place, nodes []*api.Node) (launch.Spec, error) {
	alike := map[int]int{}
	for _, n := range nodes {
		if gpus := usable(place, n); gpus > 0 {
			alike[gpus]++
		}
	}
	if len(alike) == 0 {
		return launch.Spec{}, schedulingError("no node that is ready, and that the request allows, has a GPU")
	}
	spec := trial("gpu-burn", "computes on all GPUs, and checks the results", place)
	for _, gpus := range slices.Backward(slices.Sorted(maps.Keys(alike))) {
		spec.Jobs = append(spec.Jobs, launch.Job{
			Name: fmt.Sprintf("burn-%d", gpus), Replicas: launch.Replicas{Min: alike[gpus], Max: alike[gpus]},
			OnReplicaFailure: launch.KeepOthers,
			Processes: []launch.Process{{
				Command:   []string{"python3", "burn.py", strconv.Itoa(burnTime)},
				Resources: launch.Resources{GPUs: gpus},
			}},
		})
	}
	return spec, nil
}

// usable returns how many GPUs of a node launches can have; 0 if the place does not allow it.
func usable(place launch.Place, n *api.Node) (gpus int) {
	if rest(n) != available || place.Cluster != "" && place.Cluster != n.GetCluster() ||
		place.Shard != "" && place.Shard != n.GetShard() ||
		len(place.Hostnames) > 0 && !slices.Contains(place.Hostnames, n.GetName()) {
		return 0
	}
	for _, g := range n.GetInventory().GetGpus() {
		if u := useOf(n, g); u == available || u == used {
			gpus++
		}
	}
	return gpus
}

// launch creates a launch of phos itself.
func (c client) launch(ctx context.Context, spec launch.Spec, code *api.CodeRef) (*wire.Launch, error) {
	spec, err := spec.Check()
	if err != nil {
		return nil, err
	}
	text, err := spec.JSON()
	if err != nil {
		return nil, err
	}
	reply, err := c.launches.Create(ctx, &api.CreateRequest{Spec: text, Code: code})
	if err != nil {
		return nil, neverFits(err)
	}
	return c.placed(ctx, reply.GetLaunches())
}
