package hollow

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/cluster/launch"
)

// Fleet joins nodes to the site, and waits until all are ready.
func (s *Site) Fleet(client *api.Client, count, gpus int) *Fleet {
	s.t.Helper()
	ctx := s.t.Context()
	token, err := client.Cluster.NewJoinToken(ctx, &api.NewJoinTokenRequest{Uses: uint32(count)})
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := Join(ctx, token.GetToken(), count, gpus)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(f.Close)
	for ready := 0; ready < count; time.Sleep(50 * time.Millisecond) {
		reply, err := client.Cluster.ListNodes(ctx, &api.ListNodesRequest{})
		if err != nil {
			s.t.Fatal(err)
		}
		ready = 0
		for _, n := range reply.GetNodes() {
			if n.GetState() == "ready" {
				ready++
			}
		}
	}
	return f
}

// submitters is how many launches are submitted at once.
const submitters = 8

// Submit submits launches of one GPU each, as fast as the controller takes them.
func Submit(ctx context.Context, client *api.Client, count int) error {
	var left atomic.Int64
	left.Store(int64(count))
	group, ctx := errgroup.WithContext(ctx)
	for range submitters {
		group.Go(func() error {
			for {
				number := left.Add(-1)
				if number < 0 {
					return nil
				}
				if err := SubmitOne(ctx, client, fmt.Sprintf("load-%d", number)); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// SubmitOne submits a launch of one GPU.
func SubmitOne(ctx context.Context, client *api.Client, name string) error {
	spec, err := json.Marshal(launch.Spec{Name: name, Jobs: []launch.Job{{
		Name: "main", Replicas: launch.Replicas{Min: 1, Max: 1},
		Processes: []launch.Process{{
			Command: []string{"python3", "train.py", "--epochs=90"}, Resources: launch.Resources{GPUs: 1, CPUs: 8000, Memory: 64 << 30},
		}},
	}}})
	if err != nil {
		return err
	}
	_, err = client.Launches.Create(ctx, &api.CreateRequest{Spec: spec, Request: name + time.Now().Format(time.RFC3339Nano)})
	return err
}
