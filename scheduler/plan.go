package scheduler

import (
	"context"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// Plan is what is to happen now. All stops come before all starts.
type Plan struct {
	Stops  []Stop
	Starts []Start
}

// Stop takes a running job's GPUs.
type Stop struct {
	Job cluster.JobID
	How How
}

// How says what becomes of a stopped job's work.
type How uint8

const (
	// Checkpoint saves it, so that it can go on anywhere.
	Checkpoint How = iota
	// Kill throws away what the program has not saved itself.
	Kill
	// Withdraw ends the job for good: its owner wants it no more, or it failed too often. It may be a
	// job that does not run.
	Withdraw
)

// Start lets a job run, or go on, on GPUs. A job that moves or changes its size has a Stop in the
// same plan. What the engine expects of the run stands beside it: its work goes on at Ready+Load,
// and ends when Speed has brought Done to its length.
type Start struct {
	Job cluster.JobID
	Run int // 1 for its first run
	On  cluster.Placement

	Ready time.Duration // when the last of its GPUs is free: those that a checkpoint is being taken of are not yet
	Load  time.Duration // what it takes then until its work goes on
	Done  time.Duration // the work that is behind it, on the GPUs that it asks for
	Speed float64       // work done per time
}

// Kind says what has happened.
type Kind uint8

const (
	// Submitted: Facts arrived.
	Submitted Kind = iota
	// Working: the job has loaded, its work goes on from now. Where nobody says so, the engine trusts
	// its costs.
	Working
	// Finished: the job is done.
	Finished
	// Failed: the job ended badly; what it had not saved is lost.
	Failed
	// Withdrawn: its owner wants it no more.
	Withdrawn
	// NodeDown: the node is lost with all that ran on it.
	NodeDown
	// NodeUp: the node is back, or new.
	NodeUp
	// Drained: the node gets no new jobs; those on it move away by checkpoint.
	Drained
)

// Event is something that happened outside of the scheduler.
type Event struct {
	Kind Kind
	Job  cluster.JobID
	// the run that it is about; an event of an earlier run than the job's last one comes too late. 0:
	// whatever run
	Run     int
	Node    cluster.NodeID
	Facts   *cluster.Job  // of Submitted
	Machine *cluster.Node // of NodeUp, where the node is new or not the same as before
}

// Executor makes plans come true.
type Executor interface {
	// Apply begins what a plan says and returns; what becomes of it arrives as events.
	Apply(ctx context.Context, p Plan) error
	Events() <-chan Event
}

// Clock is what the loop of a real scheduler waits by.
type Clock interface {
	Now() time.Duration
	After(d time.Duration) <-chan time.Time
}
