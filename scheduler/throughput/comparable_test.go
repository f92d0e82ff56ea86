package throughput

import (
	"strings"
	"testing"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/schedulertest"
)

// TestCommon: what a job asks for has the speed 1 to the last bit, types are relative to the
// reference, and nodes count only where they were measured or asked for.
func TestCommon(t *testing.T) {
	measured, err := Read(strings.NewReader("model,gpus,gpu_type,nodes,rate\n" +
		"mine,1,A100,1,10\nmine,2,A100,1,18\nmine,2,A100,2,9\nmine,2,V100,1,6\n"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []cluster.Node{
		{ID: 0, GPUs: 4, GPUType: "a100"},
		{ID: 1, GPUs: 4, GPUType: "V100"},
		{ID: 2, GPUs: 4, GPUType: "A100"},
		{ID: 3, GPUs: 4, GPUType: "odd"},
		{ID: 4, GPUs: 4, GPUType: "A100"},
	}
	on := func(gpus ...int32) (p cluster.Placement) {
		for i, node := range gpus {
			p = append(p, cluster.GPU{Node: cluster.NodeID(node), Index: int32(i)})
		}
		return p
	}
	types := []string{"A100", "V100", "a100", "odd"}
	table := NewTable(measured...)
	bert := NewTable().Model("bert")
	scaled := bert.Rate(1, 4) / bert.Rate(1, 2)
	for _, c := range []struct {
		what         string
		common       Common
		model, asked string
		on           cluster.Placement
		want         float64
	}{
		{"the reference", Common{Types: types, Reference: "V100"}, "bert", "", on(1, 1), 1},
		{"another reference", Common{Types: types, Reference: "A100"}, "bert", "", on(2, 2), 1},
		{"relative to it", Common{Types: types, Reference: "A100"}, "bert", "", on(1, 1), 1 / 2.6},
		{"faster", Common{Types: types, Reference: "V100"}, "bert", "", on(2, 2), 2.6},
		{"a name in small letters", Common{Types: types, Reference: "V100"}, "bert", "", on(0, 0), 2.6},
		{"the slowest counts", Common{Types: types, Reference: "V100"}, "bert", "", on(1, 2), 1},
		{"the type that it asks for", Common{Types: types, Reference: "V100"}, "bert", "A100", on(2, 2), 1},
		{"no node counts", Common{Types: types, Reference: "V100"}, "bert", "", on(2, 4), 2.6},
		{"more GPUs", Common{Types: types, Reference: "V100"}, "bert", "", on(1, 1, 1, 1), scaled},
		{"a factor", Common{Types: types, Factors: map[string]float64{"odd": 4}}, "bert", "", on(3, 3), 4},
		{"measured", Common{Types: types, Reference: "A100"}, "mine", "", on(2, 2), 1},
		{"measured nodes", Common{Types: types, Reference: "A100"}, "mine", "", on(2, 4), 0.5},
		{"measured types", Common{Types: types, Reference: "V100"}, "mine", "", on(2, 2), 3},
		{"a factor instead", Common{Types: types, Factors: map[string]float64{"A100": 7}}, "mine", "", on(2, 2), 7},
		{"a type not measured", Common{Types: types, Reference: "T4"}, "mine", "", on(2, 2), 1.8 / 0.45},
	} {
		s := NewSpeeds(table.Common(c.common))
		j := schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: 2, GPUType: c.asked, Model: c.model}}
		got := s.Speed(schedulertest.NewView(0, nodes, j).Held()[0], c.on, nodes)
		near(t, c.what, got, c.want)
		if c.want == 1 && got != 1 {
			t.Errorf("%s: %v, want exactly 1", c.what, got)
		}
	}
	placed := NewSpeeds(table.Common(Common{Types: types, Reference: "V100", Placed: true}))
	j := schedulertest.NewView(0, nodes, schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: 2, Model: "bert"}}).Held()[0]
	near(t, "placed", placed.Speed(j, on(2, 4), nodes), 2.6*bert.Rate(2, 2)/bert.Rate(1, 2))
	if g, batch := table.Common(Common{}).Model("bert").Goodput(1, 8); g != bert.Rate(1, 8) || batch != bert.Batch {
		t.Errorf("the batch becomes %v", batch)
	}
}

// TestLinear: speed is proportional to the number of GPUs, whatever they are.
func TestLinear(t *testing.T) {
	s := NewSpeeds(Linear())
	nodes := []cluster.Node{{ID: 0, GPUs: 1, GPUType: "K80"}, {ID: 1, GPUs: 8, GPUType: "H100"}}
	var j *scheduler.Job
	for gpus := 1; gpus <= 7; gpus++ {
		j = schedulertest.NewView(0, nodes, schedulertest.Job{Job: cluster.Job{ID: 1, GPUs: gpus}}).Held()[0]
		on := cluster.Placement{{Node: 0}}
		for i := range int32(6) {
			near(t, "linear", s.Speed(j, on, nodes), float64(len(on))/float64(gpus))
			on = append(on, cluster.GPU{Node: 1, Index: i})
		}
	}
}
