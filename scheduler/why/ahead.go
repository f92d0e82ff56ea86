package why

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Future is a copy of an engine, which Start lets run on until a job starts. No other goroutine
// uses it, so it need not run where the engine does.
type Future struct {
	engine  *scheduler.Engine
	job     cluster.JobID
	endless map[cluster.JobID]bool // jobs without an estimate
	running int                    // how many of them have GPUs
	overdue int                    // running jobs that exceed their estimates
}

// Ahead copies an engine, to find out when a job starts. It is called where the engine is used. p
// are policies like the engine's, but not the same ones: some remember what they have decided.
func Ahead(e *scheduler.Engine, id cluster.JobID, p scheduler.Policies) (*Future, error) {
	if e.Job(id) == nil {
		return nil, fmt.Errorf("look ahead for job %d: %w", id, ErrNoJob)
	}
	f := &Future{job: id, endless: map[cluster.JobID]bool{}}
	for _, j := range e.Held() {
		f.noteEndless(j)
	}
	for j := range e.Waiting() {
		f.noteEndless(j)
	}
	for j := range e.Running() {
		f.noteEndless(j)
		switch {
		case f.endless[j.ID()]:
			f.running++
		case j.Due() <= e.Now():
			f.overdue++
		}
	}
	var err error
	f.engine, err = scheduler.Fork(e, p)
	if err != nil {
		return nil, fmt.Errorf("look ahead for job %d: %w", id, err)
	}
	return f, nil
}

// noteEndless notes a job without an estimate.
func (f *Future) noteEndless(j *scheduler.Job) {
	if j.Estimate() <= 0 {
		f.endless[j.ID()] = true
	}
}

// Forecast is when a job starts if no other job arrives and each runs for as long as its owner has
// estimated.
type Forecast struct {
	// At is when it starts; Known is false if that is not known, and Unknown says why.
	At      time.Duration
	Known   bool
	Unknown string

	// Overdue is how many running jobs exceed their estimates: they were taken to end soon.
	Overdue int
	// Steps is how many decisions were simulated.
	Steps int
}

// Text says when it starts, as seen at a time.
func (f *Forecast) Text(now time.Duration) string {
	if !f.Known {
		return "when it starts is unknown: " + f.Unknown
	}
	text := "it starts in about " + words.Span(f.At-now) + " if no other job arrives, by the owners' estimates"
	if f.At <= now {
		text = "it can start with the next decision"
	}
	if f.Overdue > 0 {
		text += fmt.Sprintf("; %s longer than estimated, and may end at any time",
			words.Count(f.Overdue, "job runs", "jobs run"))
	}
	return text
}

// Start simulates up to so many decisions, until the job starts. It can be called once.
func (f *Future) Start(steps int) Forecast {
	c := Forecast{Overdue: f.overdue}
	now := f.engine.Now()
	if j := f.engine.Job(f.job); j.Phase() == scheduler.Running {
		c.At, c.Known = j.Since(), true
		return c
	}
	for ; c.Steps < steps; c.Steps++ {
		plan, _ := f.engine.Step(now, f.due(now)) // what policies answer wrongly is reported by the engine itself
		for i := range plan.Starts {
			if plan.Starts[i].Job == f.job {
				c.At, c.Known = plan.Starts[i].Ready, true
				return c
			}
		}
		next, ok := f.next()
		if !ok {
			c.Unknown = f.stuck()
			return c
		}
		now = max(now, next)
	}
	c.Unknown = fmt.Sprintf("it does not start within %s that were simulated", words.Count(steps, "decision", "decisions"))
	return c
}

// stuck says why nothing more happens.
func (f *Future) stuck() string {
	switch {
	case f.running > 0:
		return words.Count(f.running, "running job has", "running jobs have") + " no estimate"
	case len(f.endless) > 0:
		return words.Count(len(f.endless), "waiting job has", "waiting jobs have") + " no estimate"
	}
	return "the GPUs that it asks for are not free even when all other jobs have ended"
}

// due returns the ends of the runs that are over. A job without an estimate never ends.
func (f *Future) due(now time.Duration) (events []scheduler.Event) {
	for j := range f.engine.Running() {
		if j.Due() > now {
			break
		}
		if !f.endless[j.ID()] {
			events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: j.ID()})
		}
	}
	return events
}

// next returns when something happens.
func (f *Future) next() (at time.Duration, ok bool) {
	for j := range f.engine.Running() {
		if !f.endless[j.ID()] {
			at, ok = j.Due(), true
			break
		}
	}
	if wake, wants := f.engine.Wake(); wants && (!ok || wake < at) {
		at, ok = wake, true
	}
	return at, ok
}
