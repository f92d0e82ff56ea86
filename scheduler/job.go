package scheduler

import (
	"cmp"
	"math"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

const wholeGPU = cluster.WholeGPU

// Phase says where in its life a job is.
type Phase uint8

const (
	// Held jobs have arrived and are not admitted yet.
	Held Phase = iota
	// Waiting jobs are admitted and have no GPUs.
	Waiting
	// Running jobs have their GPUs. They may still be loading what a checkpoint saved of them.
	Running
	// Ended jobs have finished, failed for good or been withdrawn.
	Ended
)

// Job is a job as a policy sees it: what its owner said of it, and what has become of it. Only the
// engine changes one.
type Job struct {
	facts cluster.Job
	gpus  int // that it is to have where nobody says otherwise
	phase Phase

	// placement is where it runs, and since when: from is when its work goes on, which is later than
	// since by what loading takes.
	placement   cluster.Placement
	since, from time.Duration
	speed       float64 // work done in a second, in seconds of the job on the GPUs that it asked for

	// What earlier runs came to.
	attained, service, done time.Duration
	first, waitingSince     time.Duration
	runs, preemptions       int
	failures                int

	// Where the engine keeps it.
	shape             *resourceShape
	account           *account
	group             *group
	tenantQueue       *tenantQueue
	rank              Rank // as it was at ranked; it grows from then while the job runs
	ranked            time.Duration
	rankVersion       int           // how often it was ranked
	preemptibleAt     time.Duration // when it may be stopped for others
	preemptible       bool          // and that time has come
	savedAt           time.Duration // when the checkpoint of its last stop is complete
	allocatedType     string        // the GPU type that an allocation names
	candidateIn       int           // the last preemption that it was a candidate of
	gpusReleased      bool          // its GPUs are free already, as it is about to be stopped
	preemptedAt       time.Duration // when it was last stopped for others
	preemptionsAtOnce int           // and how often at that moment
	uncounted         bool          // its account does not count them, as somebody tries out what would be without them
	inQueue           *leaf         // while it waits
	inSeries          *leaf         // while it runs and may be stopped
	inDue             *leaf         // while it runs, once somebody has asked when it is due; until then
	unsortedIndex     int           // is where it stands among those of which nobody has
	leaves            [2]leaf       // what these point at: it is never in the queue and in a series at once
	series            *series
}

// ID is its number.
func (j *Job) ID() cluster.JobID { return j.facts.ID }

// Submitted is when it arrived.
func (j *Job) Submitted() time.Duration { return j.facts.Submit }

// GPUs is how many it is to have where nobody says otherwise: as many as it asks for, or, where it
// is elastic and its owner may never hold so many, the most that he may.
func (j *Job) GPUs() int { return j.gpus }

// RequestedGPUs is how many it asks for: on so many its speed is 1.
func (j *Job) RequestedGPUs() int { return j.facts.GPUs }

// Bounds are the fewest and the most GPUs that it can run on; both are GPUs for a job that is not
// elastic.
func (j *Job) Bounds() (fewest, most int) {
	if j.facts.MaxGPUs == 0 {
		return j.gpus, j.gpus
	}
	return j.facts.MinGPUs, j.facts.MaxGPUs
}

// Share is how much of its GPU it wants, in thousandths.
func (j *Job) Share() int { return j.facts.Share }

// GPUType is the model that it needs, or that an Allocator chose for it; or empty.
func (j *Job) GPUType() string {
	if j.allocatedType != "" {
		return j.allocatedType
	}
	return j.facts.GPUType
}

// OwnGPUType is the model that its owner says that it needs, or empty, whatever an Allocator chose.
func (j *Job) OwnGPUType() string { return j.facts.GPUType }

// GPUMemoryBytes is what it holds on each of its GPUs, or 0 where nobody said.
func (j *Job) GPUMemoryBytes() int64 { return j.facts.GPUMemoryBytes }

// User owns it.
func (j *Job) User() string { return j.facts.User }

// Priority: more goes first.
func (j *Job) Priority() int { return j.facts.Priority }

// Model names what it computes.
func (j *Job) Model() string { return j.facts.Model }

// Estimate is how long its owner says that it runs, all in all, on the GPUs that it asks for.
func (j *Job) Estimate() time.Duration { return j.facts.Estimate }

// Phase says where in its life it is.
func (j *Job) Phase() Phase { return j.phase }

// Placement is where it runs; empty while it does not. It must not be changed.
func (j *Job) Placement() cluster.Placement { return j.placement }

// Since is when it got the GPUs that it has.
func (j *Job) Since() time.Duration { return j.since }

// WorksFrom is when its work goes on, or has gone on, with the GPUs that it has: later than Since by
// what loading takes.
func (j *Job) WorksFrom() time.Duration { return j.from }

// FirstStart is when it first got GPUs; ok is false as long as it never did.
func (j *Job) FirstStart() (at time.Duration, ok bool) { return j.first, j.runs > 0 }

// Waited is how long it has been waiting since it last had GPUs or arrived; of a running one, how
// long it had waited for those that it has.
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

// Preemptions counts how often it was stopped for others.
func (j *Job) Preemptions() int { return j.preemptions }

// progress is how long it has been working in the run that is on; loading does not count.
func (j *Job) progress(now time.Duration) time.Duration {
	if j.phase != Running || now <= j.from {
		return 0
	}
	return now - j.from
}

// Worked is how long it has been working in the run that it is in; loading does not count.
func (j *Job) Worked(now time.Duration) time.Duration { return j.progress(now) }

// Attained is how long it has been running, over all runs, whatever it had of GPUs.
func (j *Job) Attained(now time.Duration) time.Duration { return j.attained + j.progress(now) }

// Service is the GPU-time that it has had: each GPU counts, and a share of one counts as that
// share.
func (j *Job) Service(now time.Duration) time.Duration {
	return j.service + j.gpuTime(j.progress(now))
}

// gpuTime is what a time of running comes to in GPU-time.
func (j *Job) gpuTime(ran time.Duration) time.Duration {
	if j.facts.Share == wholeGPU {
		return ran * time.Duration(len(j.placement))
	}
	return ran / wholeGPU * time.Duration(len(j.placement)*j.facts.Share)
}

// Remaining is how much longer it runs on the GPUs that it asks for if its estimate is right; 0
// when it is overdue.
func (j *Job) Remaining(now time.Duration) time.Duration {
	return max(0, j.facts.Estimate-j.Done(now))
}

// ExpectedRuntime is how much longer it runs on GPUs of them if its estimate is right and fewer are slower in
// proportion.
func (j *Job) ExpectedRuntime(now time.Duration) time.Duration {
	return Span(j.Remaining(now), float64(j.gpus)/float64(j.facts.GPUs))
}

// Done is the work that is behind it, in time on the GPUs that it asks for.
func (j *Job) Done(now time.Duration) time.Duration { return j.done + Work(j.progress(now), j.speed) }

// Speed is how fast it works on the GPUs that it has: 1 is as fast as on those that it asks for. 0
// while it has none.
func (j *Job) Speed() float64 {
	if j.phase != Running {
		return 0
	}
	return j.speed
}

// Due is when a running job ends if its estimate is right. It lies in the past for one that is
// overdue.
func (j *Job) Due() time.Duration { return j.from + Span(j.facts.Estimate-j.done, j.speed) }

// Work is what is done in a time at a speed.
func Work(ran time.Duration, speed float64) time.Duration {
	if speed == 1 {
		return ran
	}
	return time.Duration(float64(ran) * speed)
}

// Span is how long work takes at a speed: the least time after which Work has done it, to the
// precision of a float64.
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

// byDue sorts running jobs by when they are expected to end.
func byDue(a, b *Job) int {
	return cmp.Or(
		cmp.Compare(a.Due(), b.Due()),
		cmp.Compare(a.facts.Submit, b.facts.Submit),
		cmp.Compare(a.facts.ID, b.facts.ID),
	)
}
