package live

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// eager is an executor whose jobs end at once, except one that runs until it is withdrawn. It tells
// each start of that one.
type eager struct {
	events  chan scheduler.Event
	long    cluster.JobID
	started chan int
}

func (e eager) Events() <-chan scheduler.Event { return e.events }

func (e eager) Apply(_ context.Context, p scheduler.Plan) error {
	for _, start := range p.Starts {
		if start.Job == e.long {
			e.started <- start.Run
		} else {
			e.events <- scheduler.Event{Kind: scheduler.Finished, Job: start.Job, Run: start.Run}
		}
	}
	return nil
}

// TestLog: a scheduler in real time writes the log that a simulation writes, and it is consistent.
// It has a job that is too large, one that fails, one that is preempted, and one that is withdrawn.
func TestLog(t *testing.T) {
	nodes := []cluster.Node{{GPUs: 2}}
	engine, err := scheduler.New(nodes, policies(scheduler.Policies{
		Order: order.Priority{Preemptive: true}, Preempt: victims.Tail{}, Retries: 5,
	}))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	writer, err := eventlog.NewWriter(&text, eventlog.Header{
		Source: "cluster", Began: time.Now().UTC().Format(time.RFC3339), Nodes: nodes,
	})
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan scheduler.Event, 100)
	executor := eager{events: events, long: 1, started: make(chan int, 100)}
	requests := make(chan []scheduler.Event)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	finished := 0
	log := eventlog.NewLog(engine, writer)
	loop := &Loop{
		Engine: engine, Executor: executor, Clock: NewWall(), Requests: requests,
		Log: func(now time.Duration, events []scheduler.Event, plan scheduler.Plan, err error) error {
			for _, ev := range events {
				if ev.Kind == scheduler.Finished || ev.Kind == scheduler.Withdrawn {
					if finished++; finished == 4 {
						close(done)
					}
				}
			}
			return log.Step(now, events, plan, err)
		},
	}
	go func() { ended <- loop.Run(ctx) }()
	submit := func(id cluster.JobID, gpus, priority int) {
		requests <- []scheduler.Event{{Kind: scheduler.Submitted, Facts: &cluster.Job{ID: id, GPUs: gpus, Priority: priority}}}
	}
	submit(1, 2, 0)
	requests <- []scheduler.Event{{Kind: scheduler.Failed, Job: 1, Run: <-executor.started}}
	<-executor.started
	submit(2, 3, 0)
	submit(3, 1, 1)
	submit(4, 2, 2)
	submit(5, 1, 0)
	requests <- []scheduler.Event{{Kind: scheduler.Withdrawn, Job: 1}}
	select {
	case <-done:
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := writer.Flush(); err != nil {
		t.Fatal(err)
	}
	reader, err := eventlog.NewReader(bytes.NewReader(text.Bytes()), "log")
	if err != nil {
		t.Fatal(err)
	}
	got, err := eventlog.Check(reader)
	want := eventlog.Report{
		Events: got.Events, Jobs: 4, Done: 3, Withdrawn: 1, Preemptions: got.Preemptions, Failures: 1, Until: got.Until,
	}
	if err != nil || got != want || got.Preemptions == 0 ||
		!bytes.Contains(text.Bytes(), []byte(`"reject","job":2,"detail":"the cluster`)) {
		t.Errorf("got %+v, %v\n%s", got, err, text.Bytes())
	}
}
