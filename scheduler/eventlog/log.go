package eventlog

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Log writes what an engine decides. Make it before the engine's first step, and call Step behind
// each.
type Log struct {
	to   *Writer
	jobs map[cluster.JobID]*job // that have not ended

	chooser chooser // nil: the order does not change
	chosen  string

	// What the engine has told since the last step.
	admitted  []cluster.JobID
	overtakes []cluster.JobID
	preempts  []preemption
	promises  []promise
	goesOn    *goingOn  // of the event that is being handled
	handled   []handled // in the order in which the engine has handled them
}

// handled is an event of the step.
type handled struct {
	at     int // its index
	err    error
	goesOn *goingOn
}

// goingOn is a run that the engine counts although no plan began it like this.
type goingOn struct {
	run   int
	on    cluster.Placement
	ready time.Duration
	done  time.Duration
	speed float64
}

type preemption struct{ victim, by cluster.JobID }

type promise struct {
	job   cluster.JobID
	start time.Duration
}

// chooser is an order that lets one of several others decide.
type chooser interface{ Current() string }

// NewLog observes an engine.
func NewLog(engine *scheduler.Engine, to *Writer) *Log {
	l := &Log{to: to, jobs: map[cluster.JobID]*job{}}
	engine.Observe(observer{l})
	l.chooser, _ = engine.Order().(chooser)
	return l
}

// observer keeps the Log's methods apart from those that the engine calls.
type observer struct{ *Log }

func (o observer) Admitted(j *scheduler.Job)  { o.admitted = append(o.admitted, j.ID()) }
func (o observer) Overtakes(j *scheduler.Job) { o.overtakes = append(o.overtakes, j.ID()) }

func (o observer) Continues(j *scheduler.Job, now time.Duration) {
	o.goesOn = &goingOn{
		run: j.Run(), on: j.Placement(), ready: max(now, j.WorksFrom()), done: j.Done(now), speed: j.Speed(),
	}
}

func (o observer) Handled(at int, err error) {
	o.handled = append(o.handled, handled{at, err, o.goesOn})
	o.goesOn = nil
}

func (o observer) Preempts(victim, by *scheduler.Job) {
	o.preempts = append(o.preempts, preemption{victim.ID(), by.ID()})
}

func (o observer) Promised(j *scheduler.Job, start time.Duration) {
	o.promises = append(o.promises, promise{j.ID(), start})
}

// Step writes a step of the engine: what it was given, and what it decided. It has heard from the
// engine which events were refused, so it does not need the engine's error.
func (l *Log) Step(now time.Duration, events []scheduler.Event, plan scheduler.Plan, _ error) error {
	s := step{Log: l, at: now}
	if l.chooser != nil && l.chooser.Current() != l.chosen {
		l.chosen = l.chooser.Current()
		s.write(Event{Kind: Choose, Detail: l.chosen})
	}
	effects := ordered(events)
	if !effects {
		slices.SortFunc(l.handled, func(a, b handled) int { return a.at - b.at })
	}
	for i := range l.handled {
		ev := &events[l.handled[i].at]
		s.event(ev, &l.handled[i])
		if effects {
			s.stopEnded(ev.Job, plan.Stops)
		}
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
	l.handled = l.handled[:0]
	return l.to.err
}

// ordered reports whether events are written in the order in which the engine has handled them,
// each with its effect. Where nothing depends on it, they are in the order in which they were
// reported, as version 1.0 had them.
func ordered(events []scheduler.Event) bool {
	return slices.ContainsFunc(events, func(ev scheduler.Event) bool {
		return ev.Kind > scheduler.Drained || ev.Machine != nil
	})
}

// step is one step of the engine.
type step struct {
	*Log
	at            time.Duration
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
func (s *step) event(ev *scheduler.Event, h *handled) {
	if h.err != nil {
		if ev.Kind == scheduler.Submitted && ev.Facts != nil {
			s.write(Event{Kind: Reject, Job: ev.Facts.ID, Detail: words.ClipTo(h.err.Error(), 200)})
		}
		return
	}
	switch ev.Kind {
	case scheduler.Submitted:
		s.jobs[ev.Facts.ID] = &job{}
		s.arrived = append(s.arrived, ev.Facts.ID)
		s.write(Event{Kind: Arrive, Job: ev.Facts.ID, Facts: ev.Facts})
	case scheduler.Adopted:
		s.adopt(ev.State, h.goesOn)
	case scheduler.NodeDown:
		s.lost = append(s.lost, ev.Node)
		s.write(Event{Kind: Down, Node: ev.Node})
	case scheduler.NodeUp:
		s.write(Event{Kind: Up, Node: ev.Node, Machine: ev.Machine})
	case scheduler.Drained:
		s.drained = append(s.drained, ev.Node)
		s.write(Event{Kind: Drain, Node: ev.Node})
	case scheduler.Cordoned:
		s.write(Event{Kind: Cordon, Node: ev.Node})
	case scheduler.Occupied:
		s.write(Event{Kind: Occupy, Node: ev.Node, GPU: ev.GPU})
	case scheduler.Vacated:
		s.write(Event{Kind: Vacate, Node: ev.Node, GPU: ev.GPU})
	default:
		if j := s.jobs[ev.Job]; j != nil {
			s.ofJob(ev, j, h.goesOn)
		}
	}
}

// ofJob writes what happened to a job. Events of an earlier run have had no effect.
func (s *step) ofJob(ev *scheduler.Event, j *job, goesOn *goingOn) {
	late := !j.running || ev.Run != 0 && ev.Run != j.last.run
	switch {
	case ev.Kind == scheduler.Finished:
		s.write(Event{Kind: Finish, Job: ev.Job, Run: j.last.run})
		delete(s.jobs, ev.Job)
	case ev.Kind == scheduler.Withdrawn:
		s.withdrawn = append(s.withdrawn, ev.Job)
	case goesOn != nil:
		kind := Keep
		if ev.Kind == scheduler.Shrunk {
			kind = GiveBack
		}
		j.goOn(goesOn.run, goesOn.on)
		s.write(goesOn.event(kind, ev.Job))
	case late:
	case ev.Kind == scheduler.Working:
		s.write(Event{Kind: Work, Job: ev.Job, Run: j.last.run})
	case ev.Kind == scheduler.Refused:
		s.write(Event{Kind: Refuse, Job: ev.Job, Run: j.last.run})
		j.refuse()
	case ev.Kind == scheduler.Failed:
		j.stop(true, false)
		s.write(Event{Kind: Fail, Job: ev.Job, Run: j.last.run, Reason: JobFailed})
	}
}

// event returns an event with the GPUs of a run.
func (g *goingOn) event(kind Kind, id cluster.JobID) Event {
	return Event{Kind: kind, Job: id, Run: g.run, On: g.on, Ready: g.ready, Done: g.done, Speed: g.speed}
}

// adopt writes that a job is taken over.
func (s *step) adopt(state *scheduler.JobState, goesOn *goingOn) {
	e := Event{Kind: Adopt, Job: state.ID, Phase: Waiting, Run: state.Run, Done: state.Done}
	if goesOn != nil {
		e = goesOn.event(Adopt, state.ID)
		e.Phase = Running
	} else if state.Phase == scheduler.Held {
		e.Phase = Held
	}
	if e.Run == 0 {
		e.Run = state.Runs
	}
	e.Facts, e.LastRun = &state.Job, max(e.Run, state.LastRun, state.Runs)
	s.jobs[state.ID] = adopted(&e)
	s.write(e)
}

// stop writes that a job loses its GPUs, or ends.
func (s *step) stop(stop scheduler.Stop) {
	j := s.jobs[stop.Job]
	if j == nil {
		return
	}
	e := Event{Job: stop.Job, Run: j.last.run}
	switch stop.How {
	case scheduler.Withdraw:
		e.Kind = GiveUp
		if slices.Contains(s.withdrawn, stop.Job) {
			e.Kind = Withdraw
		}
		delete(s.jobs, stop.Job)
	case scheduler.Kill:
		e.Kind, e.Reason, e.Node = Fail, NodeLost, nodeOf(j.last.on, s.lost)
		j.stop(true, true)
	case scheduler.Checkpoint:
		e.Kind = Preempt
		e.Reason, e.For, e.Node = s.reason(stop.Job, j)
		j.stop(false, true)
	}
	s.write(e)
}

// stopEnded writes that a job has ended because of the event that was written last.
func (s *step) stopEnded(id cluster.JobID, stops []scheduler.Stop) {
	for _, stop := range stops {
		if stop.Job == id && stop.How == scheduler.Withdraw {
			s.stop(stop)
		}
	}
}

// reason returns why a job is preempted.
func (s *step) reason(id cluster.JobID, j *job) (why Reason, by cluster.JobID, node cluster.NodeID) {
	for _, p := range s.preempts {
		if p.victim == id {
			return ForJob, p.by, 0
		}
	}
	if node := nodeOf(j.last.on, s.drained); node >= 0 {
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
	j.begin(start.Run, start.On)
	s.write(e)
}
