package scheduler

import (
	"cmp"
	"iter"
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// View is what a policy may know. It is read-only and holds for the one call that it is handed to.
type View interface {
	Now() time.Duration

	// Nodes are all nodes that the cluster ever had; the index is the node's number. It must not be
	// changed.
	Nodes() []cluster.Node

	// Free tells what is free of them.
	Free() *Free

	// Waiting are the admitted jobs without GPUs, the first to get some first.
	Waiting() iter.Seq[*Job]

	// Running are the jobs with GPUs; the one that is Due first comes first.
	Running() iter.Seq[*Job]

	// Capacity is what the nodes that are up have.
	Capacity() Amount

	// User tells what a user holds and has had, together with all whose names begin with his and a
	// slash.
	User(name string) Usage

	// Demand is how many GPUs the admitted jobs ask for, running ones included.
	Demand() int
}

// Usage is what a user has of the cluster.
type Usage struct {
	Running, Waiting int     // jobs
	Amount                   // that he holds
	Demand           int     // GPUs that his admitted jobs ask for, running ones included
	Service          float64 // GPU-seconds that all of his jobs have had; too many for a time.Duration on a large cluster
	Cap              int     // GPUs that he may hold at the very most; Uncapped where nobody says
}

// Uncapped is the cap of a user who has none.
const Uncapped = math.MaxInt

// Rank is a job's place in the order of those that want GPUs: the least goes first. Where ranks are
// equal, the job that was submitted earlier does, then the one of the smaller number.
//
// A rank is a line, not a number, so that nobody has to look at every running job whenever
// something happens: while the job waits its rank stands still, while it runs its Value grows at a
// constant rate. What changes otherwise is asked for again at Until.
type Rank struct {
	// Tier is compared first.
	Tier int

	// Value is compared second, as it is now.
	Value float64

	// Growth is how much Value grows in a second in which the job runs.
	Growth float64

	// Until is when the policy wants to be asked again, though the job has neither started nor
	// stopped; 0 means never.
	Until time.Duration
}

// after is the rank when the job has been running for so long.
func (r Rank) after(ran time.Duration) Rank {
	r.Value += r.Growth * ran.Seconds()
	return r
}

// Compare is negative where r goes before other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(cmp.Compare(r.Tier, other.Tier), cmp.Compare(r.Value, other.Value))
}

// Orderer says who is first. It is all that a new policy must write.
type Orderer interface {
	// Rank is asked when a job arrives, starts, stops, and when the rank's Until has come.
	Rank(v View, j *Job) Rank
}

// Unranked is an Orderer that ranks all jobs alike, for ever: they go in the order of their
// arrival, and who comes is the last one.
type Unranked interface {
	Orderer
	Unranked()
}

// Preemptive is an Orderer after which a running job makes room for a waiting one of a lesser rank.
type Preemptive interface {
	Orderer
	Preempts() bool
}

// Grouper is an Orderer that ranks groups of jobs first, users mostly, and jobs within their group.
// A group is asked for again whenever one of its jobs, or of a group under the same root (the name
// up to the first slash), starts or stops.
type Grouper interface {
	Orderer
	Group(j *Job) string
	// RankGroup ranks a group as if it held so much more: nothing when it is about who is first. Where
	// it is about making room, a waiting job's group counts with what the job asks for, and a running
	// job's without what has been taken from it already: who takes must still be ahead afterwards, so
	// that two groups never take the same GPUs from each other in turn.
	RankGroup(v View, group string, more Amount) Rank
}

// Admitter lets jobs in.
type Admitter interface {
	// Admit is asked for the job that has been held longest whenever one arrives or ends, and for the
	// next one after each that it lets in: admission never changes an order. Whoever was let in counts
	// in View.Demand and User at once.
	Admit(v View, first *Job) bool
}

// TenantAdmitter is an Admitter that holds jobs in lanes, so that those of one user do not hold up
// another's. Admit is then asked for the first job of a lane when one of the lane arrives or ends.
type TenantAdmitter interface {
	Admitter
	Tenant(j *Job) string
}

// Placer finds GPUs.
type Placer interface {
	// Place finds free GPUs for n of a job's processes; ok is false where there are none that it
	// likes.
	Place(v View, j *Job, n int) (on cluster.Placement, ok bool)
}

// Backfiller lets jobs overtake others that have to wait, where that makes none of those late that
// were promised a time.
type Backfiller interface {
	// Open begins a walk through the waiting jobs, at the first one that does not fit. The Book holds
	// for that walk only, and reads what is free and who is expected to end when from the view's Free:
	// jobs that the walk starts count as soon as they are started.
	Open(v View) Reservations
}

// Reservations is what waiting jobs are promised in one walk.
type Reservations interface {
	// Reserve enters a job that cannot start now, at the earliest time that breaks no promise made
	// before. More is false once enough jobs have a promise: those behind are promised nothing. Until
	// then the walk must offer every job in its order.
	Reserve(j *Job) (more bool)

	// MaxRuntime is how long the job may run if it starts now, without breaking a promise: 0 if it must
	// not start, Forever if it does not matter. It is the same for all jobs that want the same GPUs.
	MaxRuntime(j *Job) time.Duration
}

// Forever is longer than anything lasts.
const Forever = time.Duration(math.MaxInt64)

// Preemptor chooses victims.
type Preemptor interface {
	// Choose names running jobs that stop to make room for one that needs GPUs, out of candidates that
	// rank behind it, the last first. Who is named without need keeps its GPUs.
	Choose(v View, need Demand, candidates iter.Seq[*Job]) []*Job
}

// Demand is what a waiting job lacks.
type Demand struct {
	Job  *Job
	GPUs int // how many more must become free, at least
}

// Allocator gives out GPUs by number: an elastic policy. It is asked in rounds and in place of an
// Orderer's walk.
type Allocator interface {
	// Allocate says how many GPUs each job is to have from now on; jobs that it leaves out get none.
	Allocate(v View) []Allocation
}

// Allocation is a number of GPUs for a job, of one type if it names one. A job that has what it is
// to have keeps it.
type Allocation struct {
	Job     *Job
	GPUs    int
	GPUType string

	// On is where, for a policy that decides that too: GPUs many, free once everything has stopped
	// that does not keep what it has. Empty leaves it to the Placer.
	On cluster.Placement
}

// Costs says what it takes to stop a job and to let it go on.
type Costs interface {
	// Save is how long a stopped job keeps its GPUs.
	Save(j *Job) time.Duration
	// Load is how long a job holds the GPUs before it works.
	Load(j *Job, on cluster.Placement) time.Duration
	// Lost is the work that a stop at now throws away.
	Lost(j *Job, now time.Duration) time.Duration
}

// Speeds says how fast a job runs on given GPUs: 1 is as fast as on those that it asks for.
type Speeds interface {
	Speed(j *Job, on cluster.Placement, nodes []cluster.Node) float64
}
