package eventlog

import (
	"errors"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cluster"
	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
)

// Log writes what an engine decides. Make it before the engine's first step, and call Step behind
// each.
type Log struct {
	to   *Writer
	jobs map[cluster.JobID]*job // that have not ended

	// What the engine has told since the last step.
	admitted  []cluster.JobID
	overtakes []cluster.JobID
	preempts  []preemption
	promises  []promise
}

// job is the log's state of a job.
type job struct {
	on       cluster.Placement // of the last run
	run      int
	admitted bool
	running  bool
	failed   bool // the last run ended by a failure
	promised time.Duration
}

type preemption struct{ victim, by cluster.JobID }

type promise struct {
	job   cluster.JobID
	start time.Duration
}

// NewLog observes an engine.
func NewLog(engine *scheduler.Engine, to *Writer) *Log {
	l := &Log{to: to, jobs: map[cluster.JobID]*job{}}
	engine.Observe(observer{l})
	return l
}

// observer keeps the Log's methods apart from those that the engine calls.
type observer struct{ *Log }

func (o observer) Admitted(j *scheduler.Job)  { o.admitted = append(o.admitted, j.ID()) }
func (o observer) Overtakes(j *scheduler.Job) { o.overtakes = append(o.overtakes, j.ID()) }

func (o observer) Continues(*scheduler.Job) {}

func (o observer) Preempts(victim, by *scheduler.Job) {
	o.preempts = append(o.preempts, preemption{victim.ID(), by.ID()})
}

func (o observer) Promised(j *scheduler.Job, start time.Duration) {
	o.promises = append(o.promises, promise{j.ID(), start})
}

// Step writes a step of the engine: what it was given, what it decided, and the error that it
// returned, which names the events that were refused.
func (l *Log) Step(now time.Duration, events []scheduler.Event, plan scheduler.Plan, stepErr error) error {
	s := step{Log: l, at: now, refused: refusals(stepErr)}
	for i := range events {
		s.event(i, &events[i])
	}
	for _, id := range l.admitted {
		if j := l.jobs[id]; j != nil {
			j.admitted = true
		}
		s.write(Event{Kind: Admit, Job: id})
	}
	for _, id := range s.arrived {
		if j := l.jobs[id]; j != nil && !j.admitted {
			s.write(Event{Kind: Hold, Job: id})
		}
	}
	for _, stop := range plan.Stops {
		s.stop(stop)
	}
	for i := range plan.Starts {
		s.start(&plan.Starts[i])
	}
	for _, p := range l.promises {
		if j := l.jobs[p.job]; j != nil && !j.running && j.promised != p.start {
			j.promised = p.start
			s.write(Event{Kind: Promise, Job: p.job, Start: p.start})
		}
	}
	l.admitted, l.overtakes, l.preempts, l.promises = l.admitted[:0], l.overtakes[:0], l.preempts[:0], l.promises[:0]
	return l.to.err
}

// refusals returns the events that the engine refused.
func refusals(err error) (refused []*scheduler.EventError) {
	var one *scheduler.EventError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, each := range joined.Unwrap() {
			refused = append(refused, refusals(each)...)
		}
	} else if errors.As(err, &one) {
		refused = append(refused, one)
	}
	return refused
}

// step is one step of the engine.
type step struct {
	*Log
	at            time.Duration
	refused       []*scheduler.EventError
	arrived       []cluster.JobID
	withdrawn     []cluster.JobID
	lost, drained []cluster.NodeID
}

// write writes an event of this step.
func (s *step) write(e Event) {
	e.At = s.at
	_ = s.to.Write(&e) // the Writer keeps the error
}

// event writes what happened.
func (s *step) event(at int, ev *scheduler.Event) {
	for _, r := range s.refused {
		if r.At == at {
			if ev.Kind == scheduler.Submitted && ev.Facts != nil {
				s.write(Event{Kind: Reject, Job: ev.Facts.ID, Detail: words.ClipTo(r.Err.Error(), 200)})
			}
			return
		}
	}
	switch ev.Kind {
	case scheduler.Submitted:
		s.jobs[ev.Facts.ID] = &job{}
		s.arrived = append(s.arrived, ev.Facts.ID)
		s.write(Event{Kind: Arrive, Job: ev.Facts.ID, Facts: ev.Facts})
	case scheduler.Finished:
		if j := s.jobs[ev.Job]; j != nil {
			s.write(Event{Kind: Finish, Job: ev.Job, Run: j.run})
			delete(s.jobs, ev.Job)
		}
	case scheduler.Failed:
		if j := s.jobs[ev.Job]; j != nil && j.running && (ev.Run == 0 || ev.Run == j.run) {
			j.running, j.failed = false, true
			s.write(Event{Kind: Fail, Job: ev.Job, Run: j.run, Reason: JobFailed})
		}
	case scheduler.Withdrawn:
		s.withdrawn = append(s.withdrawn, ev.Job)
	case scheduler.NodeDown:
		s.lost = append(s.lost, ev.Node)
		s.write(Event{Kind: Down, Node: ev.Node})
	case scheduler.NodeUp:
		s.write(Event{Kind: Up, Node: ev.Node, Machine: ev.Machine})
	case scheduler.Drained:
		s.drained = append(s.drained, ev.Node)
		s.write(Event{Kind: Drain, Node: ev.Node})
	case scheduler.Working:
	}
}

// stop writes that a job loses its GPUs, or ends.
func (s *step) stop(stop scheduler.Stop) {
	j := s.jobs[stop.Job]
	if j == nil {
		return
	}
	e := Event{Job: stop.Job, Run: j.run}
	switch stop.How {
	case scheduler.Withdraw:
		e.Kind = GiveUp
		if slices.Contains(s.withdrawn, stop.Job) {
			e.Kind = Withdraw
		}
		delete(s.jobs, stop.Job)
	case scheduler.Kill:
		e.Kind, e.Reason, e.Node = Fail, NodeLost, nodeOf(j.on, s.lost)
		j.running, j.failed = false, true
	case scheduler.Checkpoint:
		e.Kind = Preempt
		e.Reason, e.For, e.Node = s.reason(stop.Job, j)
		j.running, j.failed = false, false
	}
	s.write(e)
}

// reason returns why a job is preempted.
func (s *step) reason(id cluster.JobID, j *job) (why Reason, by cluster.JobID, node cluster.NodeID) {
	for _, p := range s.preempts {
		if p.victim == id {
			return ForJob, p.by, 0
		}
	}
	if node := nodeOf(j.on, s.drained); node >= 0 {
		return NodeDrained, 0, node
	}
	return Reallocation, 0, 0
}

// nodeOf returns the first of some nodes that has a GPU of a placement, or -1.
func nodeOf(on cluster.Placement, nodes []cluster.NodeID) cluster.NodeID {
	for _, gpu := range on {
		if slices.Contains(nodes, gpu.Node) {
			return gpu.Node
		}
	}
	return -1
}

// start writes that a job gets GPUs.
func (s *step) start(start *scheduler.Start) {
	j := s.jobs[start.Job]
	if j == nil {
		return
	}
	e := Event{
		Kind: j.kindOf(start.On), Job: start.Job, Run: start.Run, On: start.On, Ready: start.Ready, Load: start.Load,
		Done: start.Done, Speed: start.Speed,
	}
	if slices.Contains(s.overtakes, start.Job) {
		e.Reason = Overtakes
	}
	j.on, j.run, j.running, j.failed, j.promised = start.On, start.Run, true, false, 0
	s.write(e)
}

// kindOf returns what it is to the job to get these GPUs.
func (j *job) kindOf(on cluster.Placement) Kind {
	switch {
	case j.run == 0:
		return Start
	case j.failed:
		return Restart
	case len(on) > len(j.on):
		return Grow
	case len(on) < len(j.on):
		return Shrink
	case slices.Equal(on, j.on):
		return Resume
	}
	return Migrate
}
