package scheduler

import (
	"cmp"
	"iter"
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// View is the state that a policy may see. It is read-only and valid only during the call.
type View interface {
	Now() time.Duration

	// Nodes returns all nodes that ever joined, indexed by number. The caller must not change the
	// slice.
	Nodes() []cluster.Node

	// Free returns what is free of the nodes.
	Free() *Free

	// Waiting returns the admitted jobs without GPUs, in rank order.
	Waiting() iter.Seq[*Job]

	// Running returns the jobs with GPUs, by Due.
	Running() iter.Seq[*Job]

	// Capacity returns the sum over the nodes that are up.
	Capacity() Amount

	// User returns the usage of a user, including all users whose names begin with this name and a
	// slash.
	User(name string) Usage

	// Demand returns how many GPUs the admitted jobs ask for, running ones included.
	Demand() int
}

// Usage is what a user uses of the cluster.
type Usage struct {
	Running, Waiting int     // jobs
	Amount                   // held now
	Demand           int     // GPUs that the user's admitted jobs ask for, running ones included
	Service          float64 // GPU-seconds of all of the user's jobs; a large cluster would overflow time.Duration
	Cap              int     // the most GPUs that the user may hold; Uncapped if not configured
}

// Uncapped is the cap of a user without a configured cap.
const Uncapped = math.MaxInt

// Rank is a job's place in the order of the jobs that want GPUs: the lowest is first. Equal ranks
// are ordered by submission time, then by job number.
//
// A rank is a line and not a number, so the engine need not visit every running job at every event:
// the rank of a waiting job is constant, and the Value of a running job grows at a constant rate.
// For any other change the engine asks again at Until.
type Rank struct {
	// Tier is compared first.
	Tier int

	// Value is compared second. It is the current value.
	Value float64

	// Growth is how much Value grows in each second in which the job runs.
	Growth float64

	// Until is when the engine must ask for the rank again although the job neither started nor
	// stopped; 0 means never.
	Until time.Duration
}

// after returns the rank after the job has run for a time.
func (r Rank) after(ran time.Duration) Rank {
	r.Value += r.Growth * ran.Seconds()
	return r
}

// Compare returns a negative number if r is before other.
func (r Rank) Compare(other Rank) int {
	switch { // no value is a NaN
	case r.Tier != other.Tier:
		return cmp.Compare(r.Tier, other.Tier)
	case r.Value < other.Value:
		return -1
	case r.Value > other.Value:
		return +1
	}
	return 0
}

// Orderer decides which job is first. It is the only interface that a new policy must implement.
type Orderer interface {
	// Rank is called when a job arrives, starts or stops, and when the rank's Until is reached.
	Rank(v View, j *Job) Rank
}

// Unranked is an Orderer whose ranks are all equal and constant: jobs are ordered by arrival, and a
// new job is always last.
type Unranked interface {
	Orderer
	Unranked()
}

// Preemptive is an Orderer under which a waiting job may preempt running jobs of higher rank
// values.
type Preemptive interface {
	Orderer
	Preempts() bool
}

// Grouper is an Orderer that ranks groups of jobs first (usually users), and jobs within their
// group. The engine asks for a group's rank again whenever one of its jobs, or a job of a group
// under the same root (the name up to the first slash), starts or stops, and when nodes come or go.
type Grouper interface {
	Orderer
	Group(j *Job) string
	// RankGroup returns the rank that a group would have if it held more (or, if negative, less) than
	// it does. For the queue's order, more is zero. For preemption, the waiting job's group is ranked
	// with what the job asks for, and a victim's group without what has been taken from it already. So
	// the preempting group is still first afterwards, and two groups never take the same GPUs from
	// each other in turn.
	RankGroup(v View, group string, more Amount) Rank
}

// Admitter admits jobs.
type Admitter interface {
	// Admit reports whether the first held job is admitted. The engine calls it whenever a job arrives
	// or ends, and after each admission for the next held job, so admission never changes the order.
	// An admitted job counts in View.Demand and View.User at once.
	Admit(v View, first *Job) bool
}

// TenantAdmitter is an Admitter with one queue of held jobs for each tenant, so that tenants do not
// block each other. The engine calls Admit for the first job of a queue when one of its jobs
// arrives or ends.
type TenantAdmitter interface {
	Admitter
	Tenant(j *Job) string
}

// Placer chooses GPUs.
type Placer interface {
	// Place returns free GPUs for n of a job's processes; ok is false if the policy accepts none.
	Place(v View, j *Job, n int) (on cluster.Placement, ok bool)
}

// Backfiller lets jobs overtake blocked jobs if that does not delay any job with a reservation.
type Backfiller interface {
	// Open begins a walk through the waiting jobs, at the first one that does not fit. The result is
	// valid for that walk only. It reads from the view's Free what is free and when running jobs are
	// expected to end, so jobs that the walk starts count as soon as they are started.
	Open(v View) Reservations
}

// Promiser is a Backfiller whose reservations hold until their jobs start. Unless jobs can be
// preempted, it is opened before the first job of a walk: that job, too, may start only if it
// delays no other reservation.
type Promiser interface {
	Backfiller

	// NextStart returns when the next reservation begins; ok is false if there is none. The engine
	// walks at that time, even if no event happens then.
	NextStart() (at time.Duration, ok bool)
}

// Reservations are the start times that waiting jobs are promised in one walk.
type Reservations interface {
	// Reserve adds a reservation for a job that cannot start now, at the earliest time that delays no
	// earlier reservation. It returns false once enough jobs have a reservation: the jobs behind get
	// none. Until then the walk must pass every job in rank order.
	Reserve(j *Job) (more bool)

	// MaxRuntime returns how long the job may run if it starts now without delaying a reservation: 0
	// if it must not start, Forever if there is no limit.
	MaxRuntime(j *Job) time.Duration

	// ClassLimit is MaxRuntime for jobs without a reservation. The result is the same for all jobs
	// that request the same GPUs.
	ClassLimit(j *Job) time.Duration
}

// Forever is longer than any run.
const Forever = time.Duration(math.MaxInt64)

// Preemptor chooses victims.
type Preemptor interface {
	// Choose returns running jobs to preempt for a job that needs GPUs, out of candidates that rank
	// behind it, last first. Victims that turn out not to be needed are not preempted.
	Choose(v View, need Demand, candidates iter.Seq[*Job]) []*Job
}

// Demand is what a waiting job is short of.
type Demand struct {
	Job  *Job
	GPUs int // the least number of GPUs that must become free
}

// Allocator decides how many GPUs each job gets: an elastic policy. The engine calls it once a
// round, in place of a walk through the queue.
type Allocator interface {
	// Allocate returns how many GPUs each job is to have from now on. Jobs that it leaves out get
	// none.
	Allocate(v View) []Allocation
}

// Allocation is a number of GPUs for a job, all of one type if GPUType is set. A job that already
// has what it is allocated keeps it.
type Allocation struct {
	Job     *Job
	GPUs    int
	GPUType string

	// On is the placement, for a policy that chooses it too. The GPUs must be free once all jobs that
	// lose or change theirs have stopped. If empty, the Placer chooses.
	On cluster.Placement
}

// Costs estimates what it takes to preempt and resume a job.
type Costs interface {
	// Save returns how long a stopped job still occupies its GPUs.
	Save(j *Job) time.Duration
	// Load returns how long a started job occupies the GPUs before its work resumes.
	Load(j *Job, on cluster.Placement) time.Duration
	// Lost returns the work that is lost if the job is killed now.
	Lost(j *Job, now time.Duration) time.Duration
}

// Speeds estimates how fast a job runs on given GPUs: 1 is its speed on the GPUs that it asks for.
type Speeds interface {
	Speed(j *Job, on cluster.Placement, nodes []cluster.Node) float64
}
