package sim

import (
	"testing"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// FuzzNodes reads arbitrary input as a cluster or as node events: the result is valid, or there is
// an error.
func FuzzNodes(f *testing.F) {
	f.Add("name,gpus,gpu_type,memory_gib,rack,count\nbig,8,H100,80,r1,2\n")
	f.Add("gpus\n65\n")
	f.Add("time_s,node,event\n5,0,down\n6.5,a,up\n")
	f.Add("time_s,node,event\n\"5,0,drain\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := file(t, t.TempDir(), "f.csv", text)
		nodes, err := readNodes(path)
		if (err == nil) != (len(nodes) > 0) {
			t.Fatalf("%d nodes and %v", len(nodes), err)
		}
		for i, n := range nodes {
			if int(n.ID) != i || n.GPUs < 0 || n.GPUs > maxGPUsPerNode || n.GPUMemoryBytes < 0 {
				t.Fatalf("node %+v at place %d", n, i)
			}
		}
		events, err := readNodeEvents(path, []cluster.Node{{ID: 0, Name: "a"}, {ID: 1, Name: "b"}})
		for _, e := range events {
			if err != nil || e.At < 0 || e.Node < 0 || e.Node > 1 {
				t.Fatalf("%+v and %v", e, err)
			}
		}
	})
}
