package scheduler

import (
	"cmp"
	"math"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/ranked"
)

const wholeGPU = cluster.WholeGPU

// Phase is a stage of a job's life.
type Phase uint8

const (
	// Held jobs have arrived and are not admitted yet.
	Held Phase = iota
	// Waiting jobs are admitted and have no GPUs.
	Waiting
	// Running jobs have GPUs. They may still be loading a checkpoint.
	Running
	// Ended jobs have finished, failed for good or been withdrawn.
	Ended
)

// Job is a job as a policy sees it: the owner's description and the job's state. Only the engine
// changes it.
type Job struct {
	leaf ranked.Leaf[*Job] // memory for inQueue and inSeries: the job is never in both

	// What each run changes is together, from the end of leaf to the beginning of facts. With many
	// jobs that take turns, most of a decision's time is spent on fetching it from memory.
	placement   cluster.Placement // since `since`
	shape       *resourceShape
	account     *account
	group       *group
	inQueue     *ranked.Leaf[*Job] // set while it waits
	inSeries    *ranked.Leaf[*Job] // set while it runs and is preemptible
	rank        Rank               // as of `ranked`; it grows from then on while the job runs
	ranked      time.Duration
	rankVersion int // how often the job was ranked

	// Work resumes at `from`, which is later than `since` by the loading time.
	since, from   time.Duration
	speed         float64       // work per second, in seconds on the GPUs that the job asked for
	preemptibleAt time.Duration // when the job may be preempted
	run           int           // the number of the current run, or of the last one
	lastRun       int           // the highest number that a run has had

	phase        Phase
	preemptible  bool // preemptibleAt is over
	gpusReleased bool // its GPUs are already free, because it is about to be stopped
	uncounted    bool // its account does not include its GPUs, while allocations are tried out

	// Sums over earlier runs.
	attained, service, done time.Duration
	first, waitingSince     time.Duration
	runs, preemptions       int

	savedAt           time.Duration // when the checkpoint of the last stop is complete
	preemptedAt       time.Duration // when it was last preempted
	preemptionsAtOnce int           // and how often at that time
	shrunk            shrinkage     // of the current run
	stopped           *stoppedRun   // the last run that the engine stopped; nil if there was none
	unsortedIndex     int           // its index among those that are not sorted by Due

	allocatedType string // GPU type of the current allocation, if it names one
	gpus          int    // allocation unless an Allocator decides otherwise
	facts         cluster.Job

	// The rest is needed less often.
	series      *series
	inDue       *ranked.Leaf[*Job] // set while it runs and is sorted into the running set
	failures    int
	tenantQueue *tenantQueue
	candidateIn int               // the last candidate round in which the job was offered
	dueLeaf     ranked.Leaf[*Job] // memory for inDue
}

// ID returns the job's number.
func (j *Job) ID() cluster.JobID { return j.facts.ID }

// Name returns the owner's name for the job; it may be empty.
func (j *Job) Name() string { return j.facts.Name }

// Submitted returns when the job arrived.
func (j *Job) Submitted() time.Duration { return j.facts.Submit }

// GPUs returns how many GPUs the job gets unless an Allocator decides otherwise: as many as it asks
// for, or its owner's cap if the job is elastic and asks for more.
func (j *Job) GPUs() int { return j.gpus }

// RequestedGPUs returns how many GPUs the job asks for. Its speed on that many is 1.
func (j *Job) RequestedGPUs() int { return j.facts.GPUs }

// Bounds returns the fewest and the most GPUs that the job can run on. Both equal GPUs for a job
// that is not elastic.
func (j *Job) Bounds() (fewest, most int) {
	if j.facts.MaxGPUs == 0 {
		return j.gpus, j.gpus
	}
	return j.facts.MinGPUs, j.facts.MaxGPUs
}

// Share returns how much of each GPU the job needs, in thousandths.
func (j *Job) Share() int { return j.facts.Share }

// GPUType returns the model that the job needs or that an Allocator chose, or "".
func (j *Job) GPUType() string {
	if j.allocatedType != "" {
		return j.allocatedType
	}
	return j.facts.GPUType
}

// OwnGPUType returns the model that the owner requires, or "", whatever an Allocator chose.
func (j *Job) OwnGPUType() string { return j.facts.GPUType }

// GPUMemoryBytes returns what the job uses on each GPU; 0 if unknown.
func (j *Job) GPUMemoryBytes() int64 { return j.facts.GPUMemoryBytes }

// User returns the owner.
func (j *Job) User() string { return j.facts.User }

// Priority returns the job's priority; higher is first.
func (j *Job) Priority() int { return j.facts.Priority }

// Model returns the name of the model that the job trains.
func (j *Job) Model() string { return j.facts.Model }

// Estimate returns the owner's estimate of the job's whole runtime on the GPUs that it asks for.
func (j *Job) Estimate() time.Duration { return j.facts.Estimate }

// Phase returns the stage of the job's life.
func (j *Job) Phase() Phase { return j.phase }

// Placement returns the GPUs that the job runs on; empty if it does not run. The caller must not
// change it.
func (j *Job) Placement() cluster.Placement { return j.placement }

// Since returns when the job got its current GPUs.
func (j *Job) Since() time.Duration { return j.since }

// WorksFrom returns when the work resumes, or has resumed, on the current GPUs: later than Since by
// the loading time.
func (j *Job) WorksFrom() time.Duration { return j.from }

// FirstStart returns when the job first got GPUs; ok is false if it never did.
func (j *Job) FirstStart() (at time.Duration, ok bool) { return j.first, j.runs > 0 }

// Waited returns how long the job has waited since it arrived or lost its GPUs. For a running job
// it is how long it waited for its current GPUs.
func (j *Job) Waited(now time.Duration) time.Duration {
	switch j.phase {
	case Ended:
		return 0
	case Running:
		return j.since - j.waitingSince
	default:
		return now - j.waitingSince
	}
}

// Run returns the number of the current run, or of the last one; 0 if there was none.
func (j *Job) Run() int { return j.run }

// Preemptions returns how often the job was preempted.
func (j *Job) Preemptions() int { return j.preemptions }

// progress returns how long the current run has worked, without loading.
func (j *Job) progress(now time.Duration) time.Duration {
	if j.phase != Running || now <= j.from {
		return 0
	}
	return now - j.from
}

// Worked returns how long the current run has worked, without loading.
func (j *Job) Worked(now time.Duration) time.Duration { return j.progress(now) }

// Attained returns how long the job has worked over all runs, on any number of GPUs.
func (j *Job) Attained(now time.Duration) time.Duration { return j.attained + j.progress(now) }

// Service returns the attained GPU-time. A share of a GPU counts as that share.
func (j *Job) Service(now time.Duration) time.Duration {
	return j.service + j.gpuTime(j.progress(now))
}

// gpuTime converts a running time on the current GPUs to GPU-time.
func (j *Job) gpuTime(ran time.Duration) time.Duration {
	if j.facts.Share == wholeGPU {
		return ran * time.Duration(len(j.placement))
	}
	return ran / wholeGPU * time.Duration(len(j.placement)*j.facts.Share)
}

// Remaining returns the remaining runtime by the estimate, on the GPUs that the job asks for; 0 if
// the job is overdue.
func (j *Job) Remaining(now time.Duration) time.Duration {
	return max(0, j.facts.Estimate-j.Done(now))
}

// ExpectedRuntime returns the remaining runtime on GPUs() GPUs, if speed is proportional to their
// number.
func (j *Job) ExpectedRuntime(now time.Duration) time.Duration {
	return Span(j.Remaining(now), float64(j.gpus)/float64(j.facts.GPUs))
}

// Done returns the completed work, in time on the GPUs that the job asks for.
func (j *Job) Done(now time.Duration) time.Duration { return j.done + Work(j.progress(now), j.speed) }

// Speed returns the job's speed on its current GPUs: 1 is the speed on the GPUs that it asks for, 0
// means that it has none.
func (j *Job) Speed() float64 {
	if j.phase != Running {
		return 0
	}
	return j.speed
}

// Due returns when a running job ends by its estimate. The result is in the past if the job is
// overdue.
func (j *Job) Due() time.Duration { return j.from + Span(j.facts.Estimate-j.done, j.speed) }

// Work returns the work done in a time at a speed.
func Work(ran time.Duration, speed float64) time.Duration {
	if speed == 1 {
		return ran
	}
	return time.Duration(float64(ran) * speed)
}

// Span returns the least time after which Work has done the given work at a speed, to the precision
// of a float64.
func Span(work time.Duration, speed float64) time.Duration {
	if speed == 1 || work <= 0 {
		return max(0, work)
	}
	exact := float64(work) / speed
	if !(exact < math.MaxInt64/2) {
		return math.MaxInt64 / 2
	}
	took := time.Duration(math.Ceil(exact))
	if Work(took, speed) < work {
		took++
	}
	return took
}

// byDue compares running jobs by their expected ends.
func byDue(a, b *Job) int {
	return cmp.Or(
		cmp.Compare(a.Due(), b.Due()),
		cmp.Compare(a.facts.Submit, b.facts.Submit),
		cmp.Compare(a.facts.ID, b.facts.ID),
	)
}
