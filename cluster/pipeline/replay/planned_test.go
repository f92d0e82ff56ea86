package replay

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/pipeline"
	"github.com/phos-gpu/phos/cluster/pipeline/instance"
	"github.com/phos-gpu/phos/cluster/pipeline/replan"
	"github.com/phos-gpu/phos/cluster/pipeline/ways"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

func plan(t *testing.T, nodes, faults int) *pipeline.Plan {
	t.Helper()
	var layers []pipeline.Layer
	for i := range 24 {
		layers = append(
			layers,
			pipeline.Layer{
				Name:       fmt.Sprint(i),
				Forward:    time.Millisecond,
				Backward:   2 * time.Millisecond,
				StateBytes: 1 << 20,
			},
		)
	}
	p, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	made, err := instance.Make(
		context.Background(),
		p,
		pipeline.Spec{Nodes: nodes, GPUsPerNode: 1, GPUMemoryBytes: 10 << 20, Faults: faults, Microbatches: 96},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

var costs = Costs{
	Costs:      ways.Costs{Pause: 2 * time.Second, BytesPerSecond: 1 << 20},
	Detect:     time.Second,
	Checkpoint: time.Minute,
	Restart:    30 * time.Second,
}

func outcome(t *testing.T, p *pipeline.Plan, c Costs, events ...Event) *Outcome {
	t.Helper()
	out, err := Planned{Plan: p, Trace: events, Costs: c}.Replay(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if out.Spent.Sum() != out.End {
		t.Errorf("%v accounted for of %v: %+v", out.Spent.Sum(), out.End, out)
	}
	return out
}

func down(at time.Duration, node cluster.NodeID) Event { return Event{At: at, Node: node} }
func up(at time.Duration, node cluster.NodeID) Event   { return Event{At: at, Node: node, Up: true} }

func TestUndisturbed(t *testing.T) {
	p := plan(t, 8, 1)
	out := outcome(t, p, costs, up(time.Hour, 99))
	if want := int(int64(time.Hour) / p.IterationTime()); out.Steps != want || out.Spent.Training != time.Hour {
		t.Errorf("%+v, want %d steps", out, want)
	}
}

func TestOneDeath(t *testing.T) {
	p := plan(t, 8, 1)
	out := outcome(t, p, costs, down(time.Minute+time.Millisecond, 3), up(time.Hour, 3))
	inFlight := lostOf(p, 3, (time.Minute+time.Millisecond)%time.Duration(p.IterationTime()))
	if out.Replans != 1 || out.Spent.Detecting != time.Second || out.Spent.Pausing != 2*time.Second ||
		!near(out.Spent.InFlight, inFlight) ||
		out.Bytes == 0 ||
		out.Spent.Copying < time.Second ||
		out.Restarts != 0 {
		t.Errorf("%+v", out)
	}
}

// lostOf returns what the pipeline of a node has done of the work of some time.
func lostOf(p *pipeline.Plan, node cluster.NodeID, took time.Duration) time.Duration {
	at, _ := p.Find(node)
	return took * time.Duration(p.Pipelines[at].Microbatches) / time.Duration(p.Spec.Microbatches)
}

func near(a, b time.Duration) bool { return (a-b).Abs() < time.Microsecond && a > 0 }

// TestIterationGoesOn: what other pipelines have computed of an iteration counts when it goes on.
// It ends earlier than one that begins after the recovery.
func TestIterationGoesOn(t *testing.T) {
	p := plan(t, 8, 1)
	step := time.Duration(p.IterationTime())
	free := Costs{Costs: ways.Costs{BytesPerSecond: math.MaxInt64}, Checkpoint: time.Minute}
	next, err := replan.Recover(p, replan.Change{Dead: []cluster.NodeID{3}})
	if err != nil {
		t.Fatal(err)
	}
	after := time.Duration(next.Plan.IterationTime())
	rest := after - after*(step/2-lostOf(p, 3, step/2))/step
	for steps, end := range map[int]time.Duration{2: rest - time.Millisecond, 3: rest + time.Millisecond} {
		out := outcome(t, p, free, down(2*step+step/2, 3), up(2*step+step/2+end, 99))
		if out.Steps != steps {
			t.Errorf("%v after the death %d steps are made, want %d: %+v", end, out.Steps, steps, out)
		}
	}
	free.Backup = step / 8
	if out := outcome(t, p, free, down(2*step+step/2+step/16, 3), up(time.Hour, 99)); !near(out.Spent.InFlight, lostOf(p, 3, step/16)) {
		t.Errorf("with backups each eighth of a step: %+v", out)
	}
	// A node of each pipeline dies: nothing is kept.
	var dead []Event
	for _, each := range p.Pipelines {
		dead = append(dead, down(2*step+step/2, each.Nodes[0]))
	}
	if out := outcome(t, p, free, append(dead, up(time.Hour, 99))...); !near(out.Spent.InFlight, step/2) && out.Restarts == 0 {
		t.Errorf("%+v", out)
	}
}

// TestMachinesDie: machines with four nodes each die and come back. While each layer is on two
// machines, no training starts from a checkpoint.
func TestMachinesDie(t *testing.T) {
	apart := plan(t, 12, 1)
	machines := pipeline.Machines{{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}}
	together, err := instance.OnMachines(t.Context(), apart, machines)
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for i := range 30 {
		at := time.Duration(i+1) * 10 * time.Minute
		for _, node := range machines[i%3] {
			events = append(events, down(at, node))
		}
		for _, node := range machines[i%3] {
			events = append(events, up(at+5*time.Minute, node))
		}
	}
	if out := outcome(t, together, costs, events...); out.Restarts != 0 || len(together.OnTooFew()) != 0 {
		t.Errorf("with machines: %+v", out)
	}
	if out := outcome(t, apart, costs, events...); out.Restarts == 0 {
		t.Errorf("the deaths do no harm to a plan that does not know machines: %+v", out)
	}
}

// TestDeathsTogether: a death during a recovery gives the plan for both deaths, with one more
// pause.
func TestDeathsTogether(t *testing.T) {
	p := plan(t, 9, 1)
	out := outcome(t, p, costs, down(time.Minute, 3), down(time.Minute+1500*time.Millisecond, 7), up(time.Hour, 3))
	if out.Replans != 2 || out.Spent.Detecting != 2*time.Second || out.Spent.Pausing != 2500*time.Millisecond {
		t.Errorf("%+v", out)
	}
}

// TestJoin: a new node waits for the end of the current iteration, so that nothing is lost; a node
// that leaves before that changes nothing; and a death does not wait.
func TestJoin(t *testing.T) {
	p := plan(t, 8, 1)
	step := time.Duration(p.IterationTime())
	at := 10*step + step/2
	alone := outcome(t, p, costs, up(at, 8), up(time.Hour, 99))
	if alone.Spent.InFlight != 0 || alone.Spent.Detecting != 0 || alone.Replans != 1 ||
		alone.Spent.Pausing != costs.Pause {
		t.Errorf("a node joins: %+v", alone)
	}
	between := outcome(t, p, costs, up(10*step, 8), up(time.Hour, 99))
	if between.Spent.InFlight != 0 || between.Replans != 1 || between.Steps < alone.Steps {
		t.Errorf("a node joins between two iterations: %+v, within the next %d steps", between, alone.Steps)
	}
	undone := outcome(t, p, costs, up(at, 8), down(at+step/4, 8), up(time.Hour, 99))
	if want := int(time.Hour / step); undone.Steps != want || undone.Replans != 0 {
		t.Errorf("a node joins and goes: %+v, want %d steps", undone, want)
	}
	struck := outcome(t, p, costs, up(at, 8), down(at+step/4, 3), up(time.Hour, 99))
	if !near(struck.Spent.InFlight, lostOf(p, 3, step/2+step/4)) || struck.Replans != 1 || struck.Spent.Detecting != costs.Detect {
		t.Errorf("a node joins, another one dies before: %+v", struck)
	}
}

func TestStoppedAndResumed(t *testing.T) {
	p := plan(t, 6, 1)
	out := outcome(t, p, costs, down(10*time.Minute+50*time.Second, 5), up(20*time.Minute, 5), up(time.Hour, 40))
	if out.Spent.Stopped != 20*time.Minute-(10*time.Minute+50*time.Second) || out.Restarts != 1 ||
		out.Spent.Restarting != 30*time.Second ||
		out.Spent.RolledBack < 45*time.Second ||
		out.Spent.RolledBack > 55*time.Second {
		t.Errorf("%+v", out)
	}
}

// TestEveryTrace checks for random traces that all time is accounted for, and that less disturbance
// is at most a tenth worse.
func TestEveryTrace(t *testing.T) {
	p := plan(t, 14, 1)
	for seed := range uint64(20) {
		f := Failures{
			Nodes:     14,
			Between:   3 * time.Hour,
			BackAfter: 20 * time.Minute,
			Together:  1 + int(seed%3),
			Length:    24 * time.Hour,
			Seed:      seed,
		}
		events := f.Generate()
		dear := outcome(t, p, costs, events...)
		cheap := costs
		cheap.Detect, cheap.Pause, cheap.BytesPerSecond, cheap.Restart = 0, 0, 1<<40, 0
		if free := outcome(t, p, cheap, events...); free.Steps*11 < dear.Steps*10 {
			t.Errorf("seed %d: %d steps at no cost, %d at some", seed, free.Steps, dear.Steps)
		}
	}
}

// TestHorizon: with time until the next change, the sizes that are worth the copying are chosen.
func TestHorizon(t *testing.T) {
	var layers []pipeline.Layer
	for i := range 24 {
		layers = append(layers, pipeline.Layer{Name: fmt.Sprint(i), Forward: time.Duration(10+i%3) * time.Millisecond, StateBytes: 1000})
	}
	profile, err := pipeline.NewProfile(layers)
	if err != nil {
		t.Fatal(err)
	}
	spec := pipeline.Spec{Nodes: 20, GPUsPerNode: 1, Faults: 1, Microbatches: 48}
	p, err := instance.Make(context.Background(), profile, spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	hour := []Event{{At: time.Second, Node: 15}, {At: time.Second, Node: 17}, {At: time.Hour, Node: 0}}
	few := outcome(t, p, costs, hour...)
	with := costs
	with.Horizon = time.Hour
	if many := outcome(t, p, with, hour...); many.Steps < 2*few.Steps {
		t.Errorf("%d steps, and %d with a horizon", few.Steps, many.Steps)
	}
}
