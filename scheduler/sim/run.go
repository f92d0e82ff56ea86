package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/eventlog"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// Options of a simulation.
type Options struct {
	Nodes    []cluster.Node
	Policies scheduler.Policies
	Track    Track
	Faults   Faults
	// Until ends the simulation early; 0 means never.
	Until time.Duration
	// OmitRuns leaves Result.Runs empty.
	OmitRuns bool
	// Events is where the log of events is written, with its header; nil for none.
	Events *eventlog.Writer
	// Progress is called from time to time with the number of jobs that have ended and the virtual
	// time.
	Progress func(ended, total int, now time.Duration)
}

// checkInterval is the number of steps between two checks of the context.
const checkInterval = 256

// Play simulates until all tracked jobs have ended. If the context ends or Until is reached before,
// the result is what there is by then, marked as partial. Jobs that can never start again, because
// nodes are gone for good, remain unfinished.
func Play(ctx context.Context, jobs *packed.Jobs, o Options) (*Result, error) {
	s, err := newSimulation(jobs, o)
	if err != nil {
		return nil, err
	}
	for steps := 0; s.rec.Left() > 0; steps++ {
		if steps%checkInterval == 0 {
			if ctx.Err() != nil {
				return s.result(s.now, true)
			}
			if o.Progress != nil {
				o.Progress(s.rec.Ended(), jobs.Len(), s.now)
			}
		}
		at, any := s.next()
		if !any {
			break
		}
		if o.Until > 0 && at > o.Until {
			return s.result(o.Until, true)
		}
		if at > Horizon {
			return nil, fmt.Errorf("%d of %d jobs have ended: %w", s.rec.Ended(), jobs.Len(), ErrHorizon)
		}
		if err := s.step(at); err != nil {
			return nil, fmt.Errorf("at %s s: %w", Seconds(at), err)
		}
	}
	if o.Progress != nil {
		o.Progress(s.rec.Ended(), jobs.Len(), s.now)
	}
	return s.result(s.now, false)
}

// result returns the result, and ends the log of events.
func (s *simulation) result(at time.Duration, partial bool) (*Result, error) {
	if s.writer != nil {
		if err := s.writer.Finish(at, partial); err != nil {
			return nil, fmt.Errorf("write log of events: %w", err)
		}
	}
	return s.rec.Result(at, partial), nil
}

// simulation is the executor in virtual time: it knows when runs end.
type simulation struct {
	jobs   *packed.Jobs
	engine *scheduler.Engine
	rec    *Recorder
	faults *faults
	log    *eventlog.Log    // nil: none
	writer *eventlog.Writer // of log

	now      time.Duration
	arrivals arrivals
	index    *jobIndex
	live     []*liveJob // by index; nil for jobs that have not arrived, or have ended
	ends     endQueue   // of the current runs
	events   []scheduler.Event

	arrived, ended, running int
	busy                    int64 // thousandths of a GPU
	// consecutive steps that only the engine asked for and that had no effect
	futile int
}

// liveJob is a job between its arrival and its end. With many jobs that take turns, fetching them
// from memory takes most of the time, so what a run needs of one is together.
type liveJob struct {
	openJob
	current int32 // the number of its run; 0 if there is none
	facts   cluster.Job
}

func newSimulation(jobs *packed.Jobs, o Options) (*simulation, error) {
	engine, err := scheduler.New(o.Nodes, o.Policies)
	if err != nil {
		return nil, err
	}
	index, err := newJobIndex(jobs)
	if err != nil {
		return nil, err
	}
	s := &simulation{
		jobs: jobs, engine: engine, rec: NewRecorder(jobs, o.Nodes, o.Track), live: make([]*liveJob, jobs.Len()),
		index: index, faults: newFaults(o.Faults, o.Nodes),
		ends: endQueue{position: make([]int32, jobs.Len())}, writer: o.Events,
	}
	s.arrivals = s.rec.use.arrivals
	if o.OmitRuns {
		s.rec.OmitRuns()
	}
	if o.Events != nil {
		s.log = eventlog.NewLog(engine, o.Events)
	}
	for _, j := range jobs.All() {
		if err := CheckTimes(&j); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// maxFutileSteps is how often the engine may look at waiting jobs again while nothing runs and no
// event is pending.
const maxFutileSteps = 1000

// next returns when something happens: an arrival, the end of a run, a node event, or a timer of
// the engine. If only waiting jobs are left and the engine has looked at them often enough, nothing
// will ever happen.
func (s *simulation) next() (at time.Duration, any bool) {
	consider := func(t time.Duration) {
		if !any || t < at {
			at, any = t, true
		}
	}
	if s.arrivals.any() {
		consider(s.arrivals.at)
	}
	if s.ends.size() > 0 {
		consider(s.ends.first().at)
	}
	if t, more := s.faults.next(); more && (any || s.faults.nodesDown()) {
		consider(t)
	}
	if t, wants := s.engine.Wake(); wants && (any || s.futile < maxFutileSteps) {
		consider(t)
	}
	return max(at, s.now), any
}

// step passes all events of one time to the engine, and carries out its plan.
func (s *simulation) step(at time.Duration) error {
	s.now, s.events = at, s.events[:0]
	for s.arrivals.any() && s.arrivals.at <= at {
		s.arrive(s.arrivals.pop())
	}
	for s.ends.size() > 0 && s.ends.first().at <= at {
		s.finish(s.ends.pop())
	}
	s.events = s.faults.appendDue(s.events, at)
	plan, err := s.engine.Step(at, s.events)
	if err != nil {
		return err
	}
	if s.log != nil {
		if err := s.log.Step(at, s.events, plan, nil); err != nil {
			return fmt.Errorf("write log of events: %w", err)
		}
	}
	s.stop(plan.Stops)
	s.start(plan.Starts)
	defer s.engine.Recycle(plan)
	if len(s.events)+len(plan.Stops)+len(plan.Starts) == 0 {
		s.futile++
		return nil
	}
	s.futile = 0
	s.recordSample()
	return nil
}

// arrive submits a job.
func (s *simulation) arrive(i int32) {
	j := &liveJob{facts: s.jobs.At(int(i))}
	s.rec.open(int(i), &j.openJob)
	s.live[i] = j
	s.events = append(s.events, scheduler.Event{Kind: scheduler.Submitted, Facts: &j.facts})
	s.arrived++
}

// finish ends a run, successfully or not.
func (s *simulation) finish(end runEnd) {
	id := s.live[end.job].facts.ID
	if end.fails {
		s.rec.Failed(int(end.job))
		s.events = append(s.events, scheduler.Event{Kind: scheduler.Failed, Job: id, Run: int(end.run)})
		s.freeGPUs(end.job)
		s.rec.Stopped(int(end.job), s.now)
		return
	}
	s.events = append(s.events, scheduler.Event{Kind: scheduler.Finished, Job: id, Run: int(end.run)})
	s.freeGPUs(end.job)
	s.end(end.job, Done)
}

// end notes that a job has ended.
func (s *simulation) end(job int32, outcome Outcome) {
	s.rec.Finished(int(job), s.now, outcome)
	s.live[job] = nil
	s.ended++
}

// freeGPUs takes a job off its GPUs.
func (s *simulation) freeGPUs(job int32) {
	j := s.live[job]
	if j.current == 0 {
		return
	}
	s.ends.remove(job)
	s.busy -= int64(j.gpus) * int64(j.Share)
	j.current = 0
	s.running--
}

// stop carries out the stops of a plan.
func (s *simulation) stop(stops []scheduler.Stop) {
	for _, stop := range stops {
		i := s.index.of(stop.Job)
		j := s.live[i]
		ran := j.current != 0
		s.freeGPUs(i)
		switch {
		case stop.How == scheduler.Withdraw:
			s.end(i, Lost)
		case stop.How == scheduler.Checkpoint:
			s.rec.preempted(&j.openJob, s.now)
		case ran: // its node is lost
			s.rec.Failed(int(i))
			s.rec.Stopped(int(i), s.now)
		}
	}
}

// start starts jobs: the work resumes once the GPUs are free and the job has loaded.
func (s *simulation) start(starts []scheduler.Start) {
	for i := range starts {
		start := &starts[i]
		job := s.index.of(start.Job)
		j := s.live[job]
		j.current = int32(start.Run)
		s.running++
		j.started(s.now)
		s.rec.ran(&j.openJob, s.now, start.On)
		s.busy += int64(j.gpus) * int64(j.Share)
		from := start.Ready + start.Load
		end := runEnd{at: from + scheduler.Span(j.Length-start.Done, start.Speed), job: job, run: j.current}
		if at, fails := s.faults.failure(start.Job, start.Run, from); fails && at < end.at {
			end.at, end.fails = at, true
		}
		s.ends.push(end)
	}
}

// recordSample records the current state.
func (s *simulation) recordSample() {
	waiting := s.engine.Queued()
	s.rec.Sample(Sample{
		At: s.now, Running: s.running, Waiting: waiting, Held: s.arrived - s.ended - s.running - waiting,
		Demand: s.engine.Demand(), BusyMilli: s.busy, Capacity: int(s.engine.Capacity().GPUs),
	})
}
