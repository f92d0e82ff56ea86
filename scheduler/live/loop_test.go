package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/order"
	"github.com/phos-gpu/phos/scheduler/place"
	"github.com/phos-gpu/phos/scheduler/victims"
)

// site is a running loop with its inputs.
type site struct {
	*processes
	requests chan []scheduler.Event
	ended    chan error
	stop     context.CancelFunc

	complaints sync.Map
}

func newSite(t *testing.T, gpus int, p scheduler.Policies, script string) *site {
	t.Helper()
	engine, err := scheduler.New([]cluster.Node{{GPUs: gpus}}, p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s := &site{
		processes: newProcesses(t, script),
		requests:  make(chan []scheduler.Event),
		ended:     make(chan error, 1),
		stop:      stop,
	}
	loop := &Loop{
		Engine: engine, Executor: s, Clock: NewWall(), Requests: s.requests,
		Report: func(err error) { s.complaints.Store(err.Error(), true) },
	}
	go func() { s.ended <- loop.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; !t.Failed() && !errors.Is(err, context.Canceled) {
			t.Errorf("the loop ended with %v", err)
		}
	})
	return s
}

func (s *site) submit(j cluster.Job) {
	s.tell(scheduler.Event{Kind: scheduler.Submitted, Facts: &j})
}

func (s *site) tell(ev scheduler.Event) {
	select {
	case s.requests <- []scheduler.Event{ev}:
	case err := <-s.ended:
		s.ended <- err
		s.t.Fatalf("the loop ended with %v", err)
	}
}

// next returns the next process that is spawned, once it works.
func (s *site) next(t *testing.T) *process {
	t.Helper()
	job := <-s.started
	if !job.hear.Scan() || job.hear.Text() != "at work" {
		t.Fatalf("job %d says %q", job.id, job.hear.Text())
	}
	return job
}

// is waits until a process is in a state of /proc.
func (p *process) is(state byte) {
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if _, after, ok := bytes.Cut(stat, []byte(") ")); err == nil && ok && after[0] == state {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

const stopped, asleep = 'T', 'S'

func policies(p scheduler.Policies) scheduler.Policies {
	p.Place = place.FirstFree{}
	if p.Order == nil {
		p.Order = order.FIFO{}
	}
	return p
}

// TestUrgentJobTakesTheGPU has one GPU and real processes: the urgent one preempts the other, which
// resumes when the urgent one is done.
func TestUrgentJobTakesTheGPU(t *testing.T) {
	s := newSite(
		t,
		1,
		policies(scheduler.Policies{Order: order.Priority{Preemptive: true}, Preempt: victims.Tail{}}),
		"echo at work; read line",
	)
	s.submit(cluster.Job{ID: 1, GPUs: 1})
	slow := s.next(t)
	slow.is(asleep)

	s.submit(cluster.Job{ID: 2, GPUs: 1, Priority: 1})
	urgent := s.next(t)
	slow.is(stopped)
	urgent.is(asleep)

	fmt.Fprintln(urgent.say)
	slow.is(asleep)
	fmt.Fprintln(slow.say)
	s.submit(cluster.Job{ID: 3, GPUs: 1})
	s.next(t)
	if s.isLeft(1) || s.isLeft(2) {
		t.Error("an ended job is still listed")
	}
}

func (s *site) isLeft(id cluster.JobID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.jobs[id].ended
}

// TestFailedJobIsTriedAgain gives a job that exits with an error a second process, and no third.
func TestFailedJobIsTriedAgain(t *testing.T) {
	s := newSite(t, 1, policies(scheduler.Policies{Retries: 1}), `echo at work; read line; test "$0" != 1`)
	s.submit(cluster.Job{ID: 1, GPUs: 1})
	s.submit(cluster.Job{ID: 2, GPUs: 1})
	for attempt := 1; attempt <= 2; attempt++ {
		job := s.next(t)
		if job.id != 1 || job.run != attempt {
			t.Fatalf("run %d of job %d, want run %d of job 1", job.run, job.id, attempt)
		}
		fmt.Fprintln(job.say)
	}
	if job := s.next(t); job.id != 2 {
		t.Fatalf("job %d is next, want 2", job.id)
	}
}

// TestWithdrawnJobIsKilled withdraws a running job, and a waiting one.
func TestWithdrawnJobIsKilled(t *testing.T) {
	s := newSite(t, 1, policies(scheduler.Policies{}), "echo at work; read line")
	for id := range cluster.JobID(3) {
		s.submit(cluster.Job{ID: id, GPUs: 1})
	}
	first := s.next(t)
	s.tell(scheduler.Event{Kind: scheduler.Withdrawn, Job: 1})
	s.tell(scheduler.Event{Kind: scheduler.Withdrawn, Job: 0})
	if job := s.next(t); job.id != 2 {
		t.Fatalf("job %d is next, want 2", job.id)
	}
	if first.hear.Scan() {
		t.Errorf("a killed job says %q", first.hear.Text())
	}
}

// TestManyProcesses runs more jobs than there are GPUs. The executor refuses a plan that allocates
// a GPU twice.
func TestManyProcesses(t *testing.T) {
	const jobs = 60
	s := newSite(
		t,
		4,
		policies(scheduler.Policies{Order: order.LAS{}, Preempt: victims.Tail{}, Quantum: time.Millisecond}),
		"for i in 1 2 3; do echo $i; done",
	)
	for id := range cluster.JobID(jobs) {
		s.submit(cluster.Job{ID: id, GPUs: 1 + int(id)%4})
	}
	for range jobs {
		job := <-s.started
		for job.hear.Scan() {
		}
	}
	s.submit(cluster.Job{ID: 1, GPUs: 5})
	s.tell(scheduler.Event{Kind: scheduler.Finished, Job: 1000})
	s.tell(scheduler.Event{Kind: scheduler.NodeUp, Node: 0})
	complaints := 0
	s.complaints.Range(func(any, any) bool { complaints++; return true })
	if complaints == 0 {
		t.Error("the impossible event was not reported")
	}
}

// TestGoneExecutor: the loop ends when the executor closes its events.
func TestGoneExecutor(t *testing.T) {
	engine, err := scheduler.New([]cluster.Node{{GPUs: 1}}, policies(scheduler.Policies{}))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan scheduler.Event)
	close(gone)
	loop := &Loop{Engine: engine, Executor: closed{gone}, Clock: NewWall()}
	if err := loop.Run(t.Context()); !errors.Is(err, ErrExecutorGone) {
		t.Errorf("the loop ended with %v", err)
	}
}

// TestDo: queries see the engine between its steps, also those before the loop runs, and none
// behind its end.
func TestDo(t *testing.T) {
	engine, err := scheduler.New([]cluster.Node{{GPUs: 1}}, policies(scheduler.Policies{}))
	if err != nil {
		t.Fatal(err)
	}
	events, requests := make(chan scheduler.Event), make(chan []scheduler.Event)
	loop := &Loop{Engine: engine, Executor: closed{events}, Clock: NewWall(), Requests: requests}
	given, stop := context.WithCancel(t.Context())
	stop()
	if err := loop.Do(given, func(*scheduler.Engine) { t.Error("called") }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	var early sync.WaitGroup
	early.Go(func() {
		if err := loop.Do(t.Context(), func(e *scheduler.Engine) { _ = e.Live() }); err != nil {
			t.Error(err)
		}
	})
	go func() { ended <- loop.Run(ctx) }()
	early.Wait()
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for i := range 100 {
				id := cluster.JobID(1000*client + i)
				requests <- []scheduler.Event{{Kind: scheduler.Submitted, Facts: &cluster.Job{ID: id, GPUs: 1}}}
				seen := false
				for !seen { // the event may still be in the batch of a step
					if err := loop.Do(t.Context(), func(e *scheduler.Engine) { seen = e.Job(id) != nil }); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	clients.Wait()
	if err := loop.Do(t.Context(), func(e *scheduler.Engine) {
		if e.Live() != 800 {
			t.Errorf("%d jobs", e.Live())
		}
	}); err != nil {
		t.Error(err)
	}
	stop()
	<-ended
	if err := loop.Do(t.Context(), func(*scheduler.Engine) { t.Error("called") }); !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
}

// TestWallSince: a clock goes on from another one, and never shows less than is known of that.
func TestWallSince(t *testing.T) {
	now := time.Now()
	if got := WallSince(now.Add(-time.Hour), 0).Now(); got < time.Hour {
		t.Errorf("got %v, want an hour", got)
	}
	if got := WallSince(now.Add(time.Hour), time.Minute).Now(); got < time.Minute {
		t.Errorf("got %v, want a minute", got)
	}
	clock := WallSince(now.Round(0).Add(-time.Hour), 2*time.Hour)
	if a, b := clock.Now(), clock.Now(); a < 2*time.Hour || b < a {
		t.Errorf("got %v, then %v", a, b)
	}
}

type closed struct{ events chan scheduler.Event }

func (c closed) Apply(context.Context, scheduler.Plan) error { return nil }
func (c closed) Events() <-chan scheduler.Event              { return c.events }
