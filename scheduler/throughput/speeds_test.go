package throughput

import (
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

func TestSpeedsByHand(t *testing.T) {
	faster := *worked
	faster.Rates = map[string]float64{"H100": 3, "K80": 0.5}
	s := NewSpeeds(NewTable(&faster))
	nodes := []cluster.Node{
		{ID: 0, GPUs: 4, GPUType: "V100"},
		{ID: 1, GPUs: 2, GPUType: "H100"},
		{ID: 2, GPUs: 2, GPUType: "K80"},
		{ID: 3, GPUs: 2, GPUType: "V100"},
	}
	on := func(gpus ...[2]int32) (p cluster.Placement) {
		for _, gpu := range gpus {
			p = append(p, cluster.GPU{Node: cluster.NodeID(gpu[0]), Index: gpu[1]})
		}
		return p
	}
	asks := func(gpus int, gpuType string) *scheduler.Job {
		made := schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: gpus, GPUType: gpuType, Model: "worked"}}
		return schedulertest.NewView(0, nodes, made).Held()[0]
	}
	for _, c := range []struct {
		what string
		job  *scheduler.Job
		on   cluster.Placement
		want float64
	}{
		{"what it asked for", asks(2, ""), on([2]int32{0, 0}, [2]int32{0, 1}), 1},
		{"half", asks(2, ""), on([2]int32{0, 0}), 0.8 / 1.1},
		{"twice as many", asks(2, ""), on([2]int32{0, 0}, [2]int32{0, 1}, [2]int32{0, 2}, [2]int32{0, 3}), 0.8 / 0.65},
		{"over two nodes", asks(2, ""), on([2]int32{0, 0}, [2]int32{3, 0}), 0.8 / 1.5},
		{"faster GPUs", asks(2, ""), on([2]int32{1, 0}, [2]int32{1, 1}), 3},
		{"the type that it needs", asks(2, "H100"), on([2]int32{1, 0}, [2]int32{1, 1}), 1},
		{"the slowest counts", asks(2, ""), on([2]int32{1, 0}, [2]int32{2, 0}), 0.8 / 1.5 / 2},
		{"asked for more than a node has", asks(6, ""), on([2]int32{0, 0}, [2]int32{0, 1}, [2]int32{0, 2}, [2]int32{0, 3},
			[2]int32{3, 0}, [2]int32{3, 1}), 1},
		{"nothing", asks(2, ""), nil, 0},
	} {
		near(t, c.what, s.Speed(c.job, c.on, nodes), c.want)
	}
	adaptive := NewAdaptiveSpeeds(NewTable(&faster))
	if a := adaptive.Speed(asks(2, ""), on([2]int32{0, 0}, [2]int32{0, 1}), nodes); a < 1 {
		t.Errorf("with the best batch a job runs at %g", a)
	}
}
