package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/live"
)

const (
	queued    = 10_000 // jobs that wait, on average
	decisions = 2000   // that are timed, each when a job has ended
)

// liveDecisions compares how long the scheduler in real time takes to answer the end of a job with
// what its engine takes, for the same jobs: the loop and its channels must not cost more than the
// decision.
func liveDecisions(t *testing.T, b *bench) row {
	t.Helper()
	var inLoop, alone []time.Duration
	for range b.rounds {
		alone = append(alone, engineAlone(t)...)
		inLoop = append(inLoop, engineInLoop(t)...)
	}
	slices.Sort(alone)
	slices.Sort(inLoop)
	one, two := alone[len(alone)/2], inLoop[len(inLoop)/2]
	return row{
		name: fmt.Sprintf("a decision, %d jobs waiting: live / simulated", queued), value: float64(two) / float64(one),
		unit: "x", most: 2, note: fmt.Sprintf("%.1f us, %.1f us", float64(two)/1e3, float64(one)/1e3),
	}
}

// full returns an engine whose GPUs all have jobs, with many waiting, and the runs.
func full(t *testing.T) (*scheduler.Engine, []scheduler.Start) {
	t.Helper()
	nodes := make([]cluster.Node, clusterNodes/10)
	for i := range nodes {
		nodes[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: gpusPerNode}
	}
	engine, err := scheduler.New(nodes, disciplines()[2].policies())
	if err != nil {
		t.Fatal(err)
	}
	var events []scheduler.Event
	jobs := trace(t, queued+decisions).Slice()
	for i := range jobs {
		jobs[i].Submit = 0
		events = append(events, scheduler.Event{Kind: scheduler.Submitted, Facts: &jobs[i]})
	}
	plan, err := engine.Step(0, events)
	if err != nil {
		t.Fatal(err)
	}
	return engine, plan.Starts
}

// engineAlone times the engine.
func engineAlone(t *testing.T) (took []time.Duration) {
	t.Helper()
	engine, runs := full(t)
	for i := range decisions {
		event := scheduler.Event{Kind: scheduler.Finished, Job: runs[0].Job, Run: runs[0].Run}
		began := time.Now()
		plan, err := engine.Step(time.Duration(i)*time.Millisecond, []scheduler.Event{event})
		took = append(took, time.Since(began))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs[1:], plan.Starts...)
	}
	return took
}

// engineInLoop times the same decisions from the event to the plan.
func engineInLoop(t *testing.T) (took []time.Duration) {
	t.Helper()
	engine, runs := full(t)
	events, plans := make(chan scheduler.Event), make(chan scheduler.Plan, 1)
	loop := &live.Loop{
		Engine: engine, Executor: inert(events), Clock: live.NewWall(),
		Log: func(_ time.Duration, _ []scheduler.Event, plan scheduler.Plan, err error) error {
			plans <- plan
			return err
		},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	<-plans // of the step that the loop begins with
	for range decisions {
		began := time.Now()
		events <- scheduler.Event{Kind: scheduler.Finished, Job: runs[0].Job, Run: runs[0].Run}
		plan := <-plans
		took = append(took, time.Since(began))
		runs = append(runs[1:], plan.Starts...)
	}
	stop()
	<-ended
	return took
}

// inert is an executor that does nothing.
type inert chan scheduler.Event

func (inert) Apply(context.Context, scheduler.Plan) error { return nil }
func (i inert) Events() <-chan scheduler.Event            { return i }
