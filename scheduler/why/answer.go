package why

import (
	"time"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Answer is why a job waits, or that it runs. All times are the engine's.
type Answer struct {
	Job   cluster.JobID
	Phase scheduler.Phase
	Now   time.Duration

	// Since is when the job arrived or lost its GPUs; of a running one, when it got them.
	Since time.Duration
	// On are the GPUs of a running job.
	On cluster.Placement

	Wants  Wants
	Held   *Held // set if the job is not admitted yet
	Cap    *Cap  // set if a cap keeps it from starting now
	Supply Supply
	Before Before

	// Preempts is set if waiting jobs may preempt running ones, and Preemptible is how many GPUs could
	// be taken from others for this one now.
	Preempts    bool
	Preemptible int

	// Promised is when the job starts at the latest by its reservation, if HasPromise is set.
	Promised   time.Duration
	HasPromise bool

	// Round is the time between decisions; 0 if the engine decides at every event.
	Round time.Duration
}

// Wants is what a job asks for.
type Wants struct {
	GPUs           int
	Fewest, Most   int // of an elastic job; otherwise GPUs
	Share          int // of each GPU, in thousandths
	GPUType        string
	GPUMemoryBytes int64
}

// Held is why a job is not admitted.
type Held struct {
	Before int    // jobs that are admitted before it
	Limit  string // why the first of them is not, in words; "" if the policy does not say
}

// Cap is a cap that keeps a job from starting.
type Cap struct {
	User string  // that has the cap: the job's user, or one above
	Most int     // GPUs that the user may hold
	Used float64 // that it holds now, with all users below it
}

// Supply is where the GPUs that suit a job are. Each GPU counts once.
type Supply struct {
	Total int // all of them, on all nodes that ever joined

	Free    int // a job that shares a GPU may get the rest of a shared one
	Busy    int // held by jobs, on open nodes
	Foreign int // used by something that is no job, on open nodes

	// On nodes that get no jobs.
	Cordoned, Draining, Lost int

	// Largest is the most free GPUs on one node, and Nodes the nodes with most of them, at most
	// MaxNodes.
	Largest int
	Nodes   []NodeFree
}

// MaxNodes is how many nodes with free GPUs an Answer names.
const MaxNodes = 4

// NodeFree is a node with free GPUs.
type NodeFree struct {
	Node cluster.NodeID
	Name string // as the cluster calls it; may be empty
	Free int
}

// Before are the waiting jobs that are first.
type Before struct {
	Jobs  int
	GPUs  int     // that they ask for
	First []Rival // at most MaxRivals
	Words string  // why the job itself ranks where it does
}

// MaxRivals is how many jobs before one an Answer names.
const MaxRivals = 3

// Rival is a job that is before another one.
type Rival struct {
	Job   cluster.JobID
	Name  string // as its owner calls it; may be empty
	User  string
	GPUs  int
	Words string // why it ranks where it does; "" if only its submission counts
}
