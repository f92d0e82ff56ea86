package eventlog

import (
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Name is the format's name, and Major and Minor are the version that this package writes.
const (
	Name  = "phos-scheduler-events"
	Major = 1
	Minor = 1
)

// Kind is what happened, or was decided.
type Kind string

// The kinds of events.
const (
	Arrive   Kind = "arrive"    // a job was submitted
	Reject   Kind = "reject"    // it was refused: Detail says why
	Hold     Kind = "hold"      // it is not admitted yet
	Admit    Kind = "admit"     // it may get GPUs from now on
	Promise  Kind = "promise"   // it has a reservation: it starts at Start, or earlier
	Start    Kind = "start"     // it gets its first GPUs
	Resume   Kind = "resume"    // it gets the GPUs that it had before it was preempted
	Migrate  Kind = "migrate"   // it gets as many others
	Grow     Kind = "grow"      // it gets more than it had
	Shrink   Kind = "shrink"    // it gets fewer
	Restart  Kind = "restart"   // it gets GPUs after a failure
	Preempt  Kind = "preempt"   // it is saved, and loses its GPUs
	Fail     Kind = "fail"      // it, or its node, failed
	Finish   Kind = "finish"    // it is done
	GiveUp   Kind = "give-up"   // it failed too often, and is not started again
	Withdraw Kind = "withdraw"  // its owner withdrew it
	Down     Kind = "node-down" // a node is lost, with what ran on it
	Up       Kind = "node-up"   // a node is back, or new
	Drain    Kind = "node-drain"
	Choose   Kind = "choose" // from now on another policy decides: Detail is its name
	End      Kind = "end"    // the log is complete
)

// The kinds of version 1.1, which only logs of clusters have.
const (
	Adopt    Kind = "adopt"     // a job is taken over from the scheduler before
	Work     Kind = "work"      // its work goes on now, whatever was expected
	Refuse   Kind = "refuse"    // its run could not begin: it waits as before
	Keep     Kind = "keep"      // it was not saved, or not lost, and runs on where it was
	GiveBack Kind = "give-back" // it goes on with fewer GPUs
	Cordon   Kind = "node-cordon"
	Occupy   Kind = "occupy" // something foreign uses a GPU
	Vacate   Kind = "vacate" // no more
)

// runs reports whether a job gets GPUs by a decision.
func (k Kind) runs() bool {
	switch k {
	case Start, Resume, Migrate, Grow, Shrink, Restart:
		return true
	default:
		return false
	}
}

// hasGPUs reports whether an event has the GPUs of a job.
func (e *Event) hasGPUs() bool {
	return e.Kind.runs() || e.Kind == Keep || e.Kind == GiveBack || e.Kind == Adopt && e.Phase == Running
}

// describes reports whether an event describes its job.
func (k Kind) describes() bool { return k == Arrive || k == Adopt }

// ofNode reports whether the event is one of a node.
func (k Kind) ofNode() bool { return k == Down || k == Up || k == Drain || k == Cordon || k.ofGPU() }

// ofGPU reports whether the event is one of a GPU of a node.
func (k Kind) ofGPU() bool { return k == Occupy || k == Vacate }

// ends reports whether the job's life ends.
func (k Kind) ends() bool { return k == Finish || k == GiveUp || k == Withdraw || k == Reject }

// known reports whether this version has the kind.
func (k Kind) known() bool {
	switch k {
	case Arrive, Hold, Admit, Promise, Preempt, Fail, Choose, End, Adopt, Work, Refuse, Keep, GiveBack:
		return true
	default:
		return k.runs() || k.ofNode() || k.ends()
	}
}

// Phase is a stage of the life of an adopted job.
type Phase string

// The phases.
const (
	Held    Phase = "held"    // not admitted yet
	Waiting Phase = "waiting" // admitted
	Running Phase = "running"
)

// Reason is why.
type Reason string

// The reasons.
const (
	ForJob       Reason = "for-job"      // preempt: job For gets the GPUs
	Reallocation Reason = "reallocation" // preempt: the policy shares all GPUs out again
	NodeDrained  Reason = "node-drain"   // preempt: node Node is drained
	JobFailed    Reason = "job"          // fail: by itself
	NodeLost     Reason = "node"         // fail: with node Node
	Overtakes    Reason = "overtakes"    // of a run: a job before it in the queue could not start
)

// Event is a line.
type Event struct {
	At   time.Duration
	Kind Kind

	// Job is the job, unless the event is one of a node or End.
	Job cluster.JobID
	// Facts describe the job, if it arrives or is adopted. Phase and LastRun, the highest number that
	// a run has had, are those of an adopted one.
	Facts   *cluster.Job
	Phase   Phase
	LastRun int

	// Run counts the job's runs from 1; 0 if it has none.
	Run int
	// On are the GPUs of a run. Its work begins at Ready + Load, has Done behind it, and progresses at
	// Speed. If the run goes on, Done is what is done by now.
	On          cluster.Placement
	Ready, Load time.Duration
	Done        time.Duration
	Speed       float64

	Reason Reason
	For    cluster.JobID  // if the reason is ForJob
	Node   cluster.NodeID // of events of nodes, and if the reason is NodeLost or NodeDrained
	GPU    int32          // of Occupy and Vacate: its index on the node
	Start  time.Duration  // of Promise
	Detail string         // of Reject and Choose

	// Machine is the node, if one joins that is new or has changed.
	Machine *cluster.Node

	// Lines is how many lines a log has, and Partial whether it was cut off: of End.
	Lines   int64
	Partial bool
}

// Header is the first line.
type Header struct {
	Major, Minor int

	// Source is what the log is of: simulation or cluster.
	Source string
	// Began is when time 0 was, in RFC 3339; empty in a simulation.
	Began string
	// Nodes are the cluster, by number.
	Nodes []cluster.Node
	// Scheduler describes policies and settings: any JSON. A Reader returns it undecoded.
	Scheduler any
}
