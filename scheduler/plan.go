package scheduler

import (
	"context"
	"time"

	"github.com/phos-gpu/phos/cluster"
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
	Run int // 1 for its first run
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
)

// Event is something that happened outside of the scheduler.
type Event struct {
	Kind Kind
	Job  cluster.JobID
	// the run that the event is about; events of an earlier run than the job's last one are ignored.
	// 0: any run
	Run     int
	Node    cluster.NodeID
	Facts   *cluster.Job  // of Submitted
	Machine *cluster.Node // of NodeUp, if the node is new or has changed
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
