package eventlog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/backfill"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// site is a cluster that reports all that can happen, to an engine with a log.
type site struct {
	random *rand.Rand
	engine *scheduler.Engine
	log    *Log
	want   Report
	now    time.Duration
	next   cluster.JobID
	plan   scheduler.Plan // the last one
}

// event returns something that may have happened.
func (s *site) event() scheduler.Event {
	ev := scheduler.Event{
		Kind: scheduler.Kind(s.random.IntN(int(scheduler.Refused) + 1)), Node: cluster.NodeID(s.random.IntN(4)),
		GPU: s.random.Int32N(4), Job: cluster.JobID(s.random.Int64N(int64(s.next) + 1)),
	}
	switch j := s.engine.Job(ev.Job); ev.Kind {
	case scheduler.NodeDown, scheduler.Drained, scheduler.Cordoned:
		if s.random.IntN(3) > 0 {
			ev.Kind = scheduler.NodeUp
		}
	case scheduler.NodeUp:
		if s.random.IntN(3) == 0 {
			ev.Machine = &cluster.Node{ID: ev.Node, GPUs: 3 + s.random.IntN(2), GPUType: "A"}
		}
	case scheduler.Submitted:
		ev.Facts = s.job()
	case scheduler.Adopted:
		ev.State = &scheduler.JobState{
			Job: *s.job(), Phase: scheduler.Phase(s.random.IntN(3)), Runs: s.random.IntN(3), LastRun: s.random.IntN(5),
		}
		if ev.State.Phase == scheduler.Running {
			ev.State.On = cluster.Placement{{Node: ev.Node, Index: ev.GPU}}
		}
	case scheduler.Kept:
		if stops := s.plan.Stops; len(stops) > 0 {
			ev.Job = stops[s.random.IntN(len(stops))].Job
		}
	case scheduler.Refused:
		if starts := s.plan.Starts; len(starts) > 0 {
			ev.Job = starts[s.random.IntN(len(starts))].Job
		}
	case scheduler.Shrunk:
		if j != nil && len(j.Placement()) > 1 {
			ev.On = j.Placement()[1:]
		}
	default:
	}
	return ev
}

func (s *site) job() *cluster.Job {
	s.next++
	return &cluster.Job{
		ID: s.next, GPUs: 1 + s.random.IntN(4), Submit: s.now, Priority: s.random.IntN(3), Share: cluster.WholeGPU,
		GPUType: []string{"", "", "A"}[s.random.IntN(3)], Estimate: time.Duration(1+s.random.IntN(20)) * time.Second,
	}
}

// step makes some events happen.
func (s *site) step(t *testing.T) {
	t.Helper()
	var events []scheduler.Event
	for range s.random.IntN(4) {
		events = append(events, s.event())
	}
	if len(s.plan.Starts) > 0 && len(s.plan.Stops) > 0 && s.random.IntN(3) == 0 { // nothing of the plan was possible
		events = nil
		for _, stop := range s.plan.Stops {
			events = append(events, scheduler.Event{Kind: scheduler.Kept, Job: stop.Job})
		}
		for _, start := range s.plan.Starts {
			events = append(events, scheduler.Event{Kind: scheduler.Refused, Job: start.Job, Run: start.Run})
		}
	}
	plan, err := s.engine.Step(s.now, events)
	if err := s.log.Step(s.now, events, plan, err); err != nil {
		t.Fatal(err)
	}
	refused := map[int]bool{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			var event *scheduler.EventError
			if !errors.As(err, &event) {
				t.Fatal(err)
			}
			refused[event.At] = true
		}
	}
	for i := range events {
		switch {
		case refused[i]:
		case events[i].Kind == scheduler.Adopted:
			s.want.Adopted++
			s.want.Jobs++
		case events[i].Kind == scheduler.Submitted:
			s.want.Jobs++
		case events[i].Kind == scheduler.Kept:
			s.want.Kept++
		}
	}
	s.plan = plan
	s.now += time.Duration(s.random.IntN(3)) * time.Second
}

// TestClusterLog: the log of a cluster in which everything happens is consistent, and has what the
// engine has at its end.
func TestClusterLog(t *testing.T) {
	var kept, refused int
	for seed := range uint64(150) {
		nodes := make([]cluster.Node, 4)
		for i := range nodes {
			nodes[i] = cluster.Node{ID: cluster.NodeID(i), GPUs: 4, GPUType: "A"}
		}
		p := scheduler.Policies{Order: order.Priority{Preemptive: true}, Place: place.BestFit{}, Preempt: victims.Tail{}}
		p.Retries = 2
		switch seed % 3 {
		case 1:
			p = scheduler.Policies{Order: order.FIFO{}, Place: place.FirstFree{}, Backfill: backfill.NewEASY()}
		case 2:
			p = scheduler.Policies{Order: order.LAS{}, Place: place.FirstFree{}, Preempt: victims.Tail{}, Quantum: time.Second}
		}
		engine, err := scheduler.New(nodes, p)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		writer, err := NewWriter(&text, Header{Source: "cluster", Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		s := &site{random: rand.New(rand.NewPCG(seed, 5)), engine: engine, log: NewLog(engine, writer)}
		for range 200 {
			s.step(t)
		}
		if err := writer.Flush(); err != nil {
			t.Fatal(err)
		}
		got, err := read(text.String())
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Jobs != s.want.Jobs || got.Adopted != s.want.Adopted || got.Kept != s.want.Kept ||
			got.Running != engine.Busy() || got.Running+got.Waiting != engine.Live() {
			t.Errorf("seed %d: got %+v, want %+v, %d running of %d", seed, got, s.want, engine.Busy(), engine.Live())
		}
		kept, refused = kept+got.Kept, refused+got.Refused
	}
	if kept < 100 || refused < 100 {
		t.Errorf("%d runs were kept, %d refused", kept, refused)
	}
}
