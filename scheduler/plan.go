package scheduler

import (
	"context"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Plan is what must happen now. All stops come before all starts.
type Plan struct {
	Stops  []Stop
	Starts []Start
}

// Stop takes a running job's GPUs away.
type Stop struct {
	Job cluster.JobID
	How How
}

// How is what becomes of a stopped job's work.
type How uint8

const (
	// Checkpoint saves it, so that it can resume anywhere.
	Checkpoint How = iota
	// Kill loses what the program has not saved by itself.
	Kill
	// Withdraw ends the job for good: its owner withdrew it, or it failed too often. The job may not
	// be running.
	Withdraw
)

// Start runs or resumes a job on GPUs. A job that moves or changes its size has a Stop in the same
// plan. The other fields are the engine's expectation: the work resumes at Ready+Load, and ends
// when Speed has brought Done to its length.
type Start struct {
	Job cluster.JobID
	Run int // 1 for its first run; a number is never used again, even if the run is Refused
	On  cluster.Placement

	Ready time.Duration // when the last of its GPUs is free; a GPU that is being saved is not yet
	Load  time.Duration // the time from Ready until the work resumes
	Done  time.Duration // the completed work, on the GPUs that the job asks for
	Speed float64       // work done per time
}

// Kind is the kind of an Event.
type Kind uint8

const (
	// Submitted: the job Facts arrived.
	Submitted Kind = iota
	// Working: the job has loaded and its work resumes now. Without this event the engine relies on
	// Costs.
	Working
	// Finished: the job is done.
	Finished
	// Failed: the job failed; what it had not saved is lost.
	Failed
	// Withdrawn: the owner withdrew the job.
	Withdrawn
	// NodeDown: the node is lost, with everything that ran on it.
	NodeDown
	// NodeUp: the node is back, or new.
	NodeUp
	// Drained: the node gets no new jobs; its jobs are checkpointed and move away.
	Drained

	// The following happen only where plans meet machines. If an event of one of them is refused, its
	// EventError says why, and nothing has changed.

	// Cordoned: the node gets no new jobs; its jobs stay.
	Cordoned
	// Occupied: something foreign uses a GPU of a node. No job gets the GPU; a job that has it keeps
	// it. This lasts until Vacated or NodeDown, whatever else becomes of the node.
	Occupied
	// Vacated: nothing foreign uses the GPU now.
	Vacated
	// Adopted: the engine takes over a job, State, from the scheduler before it. A running job may
	// exceed its user's cap and be on a closed node, but its GPUs must not be those of another job.
	Adopted
	// Kept: a job that was stopped by the last plans, or was lost with its node, runs on as the same
	// run: it could not be saved, or was not lost. It is as if it had not been stopped. Its GPUs, On,
	// are those that it had if On is empty. No other job may have them: one that was to start there
	// must be Refused, in the same step at the latest.
	Kept
	// Shrunk: a running job has given some of its GPUs back, and goes on with the others, On. A job
	// that has given back all is Finished or Failed.
	Shrunk
	// Refused: a run could not begin. The job waits again as before, without having lost anything. Its
	// GPUs are free now: unless other events say why, the next decision is the same.
	Refused
)

// Event is something that happened outside of the scheduler.
type Event struct {
	Kind Kind
	Job  cluster.JobID
	// the run that the event is about; events of an earlier run than the job's last one are ignored.
	// 0: any run
	Run     int
	Node    cluster.NodeID
	GPU     int32             // of Occupied and Vacated: its index on the node
	On      cluster.Placement // of Kept and Shrunk
	Facts   *cluster.Job      // of Submitted
	State   *JobState         // of Adopted
	Machine *cluster.Node     // of NodeUp, if the node is new or has changed
}

// Executor carries out plans.
type Executor interface {
	// Apply begins to carry out a plan and returns. The outcome arrives as events.
	Apply(ctx context.Context, p Plan) error
	Events() <-chan Event
}

// Clock is the time source of a scheduler in real time.
type Clock interface {
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
}

// Observer is told of decisions that a Plan does not have, while Step makes them. It must not call
// the engine, and must not keep the jobs.
type Observer interface {
	// Admitted is called when a job is admitted.
	Admitted(j *Job)
	// Preempts is called before a job is stopped so that another one gets its GPUs.
	Preempts(victim, by *Job)
	// Overtakes is called when a job starts although one before it in the queue could not.
	Overtakes(j *Job)
	// Promised is called for waiting jobs with a reservation, in each walk that considers them.
	Promised(j *Job, start time.Duration)
	// Continues is called when a job has GPUs that no plan has given it, or fewer than a plan has: it
	// was adopted or kept, or has shrunk.
	Continues(j *Job, now time.Duration)
	// Handled is called behind each event, in the order in which they take effect, with its index
	// among the events of the step, and why it was refused, if it was.
	Handled(at int, err error)
}

// Observe sets the observer; nil for none. A Fork has none.
func (e *Engine) Observe(o Observer) { e.observer = o }

// observeStart tells the observer of a start that overtakes a blocked job.
func (e *Engine) observeStart(j *Job) {
	if e.observer != nil && len(e.blocked) > 0 {
		e.observer.Overtakes(j)
	}
}

// observePreemptions tells the observer for which job others are about to be stopped.
func (e *Engine) observePreemptions(victims []*Job, by *Job) {
	if e.observer == nil {
		return
	}
	for _, v := range victims {
		e.observer.Preempts(v, by)
	}
}

// observePromise tells the observer of a waiting job's reservation, if the Backfiller says when it
// begins.
func (e *Engine) observePromise(j *Job) {
	if e.observer == nil {
		return
	}
	if at, ok := e.Promised(j); ok {
		e.observer.Promised(j, at)
	}
}
