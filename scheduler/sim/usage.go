package sim

import (
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// runEnding is how a job's last run ended.
type runEnding uint8

const (
	neverRan runEnding = iota
	wasPreempted
	hasFailed
)

// openJob is a job that has arrived and not ended. What each run changes follows the end of
// JobResult, where the rest of it is.
type openJob struct {
	JobResult

	// What it holds now, and how its last run ended.
	since  time.Duration
	gpus   int32 // 0: none
	run    int32 // the index of its current run in Recorder.runs, plus one; 0 if that is not recorded
	ending runEnding

	arrived float64 // usage.integral at its arrival
}

// started notes the job's first start.
func (j *openJob) started(at time.Duration) {
	if !j.Started {
		j.Started, j.Start = true, at
	}
}

// begin notes that the job has GPUs from now on; on is nil if the simulator only counts them.
func (j *openJob) begin(at time.Duration, on cluster.Placement) {
	gpus := len(on)
	if on == nil {
		gpus = j.GPUs
	}
	switch {
	case j.ending == hasFailed:
		j.Restarts++
	case j.ending == wasPreempted && gpus != j.lastGPUs():
		j.Resizes++
	case j.ending == wasPreempted && !slices.Equal(on, j.Placement):
		j.Migrations++
	}
	j.Runs++
	j.Placement, j.counted = on, int32(gpus)
	j.since, j.gpus = at, int32(gpus)
}

// end notes that the job has lost its GPUs, if it had any.
func (j *openJob) end(at time.Duration, ending runEnding) {
	if j.gpus > 0 && at > j.since {
		j.Ran += at - j.since
		j.GPUSeconds += gpuSeconds(at-j.since, int(j.gpus), j.Share)
	}
	j.gpus, j.ending = 0, ending
}

// gpuSeconds returns the GPU-seconds of a time on GPUs with a share of each in thousandths.
func gpuSeconds(held time.Duration, gpus, share int) float64 {
	return held.Seconds() * float64(gpus) * float64(share) / cluster.WholeGPU
}

// usage adds up how many jobs were in the system.
type usage struct {
	arrivals arrivals
	integral float64 // of the number of jobs in the system over time, in job-seconds, until at
	inSystem int     // from then on
	at       time.Duration
}

// leave notes that a job has ended.
func (u *usage) leave(j *openJob, at time.Duration) {
	j.end(at, neverRan)
	if at > j.Submit {
		j.Contention = (u.until(at) - j.arrived) / (at - j.Submit).Seconds()
	}
}

// until returns the integral until a time that is not before the last sample.
func (u *usage) until(at time.Duration) float64 {
	return u.integral + float64(u.inSystem)*max(0, at-u.at).Seconds()
}

// arrived returns the jobs that have arrived by a time, each once.
func (u *usage) arrived(by time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		for u.arrivals.any() && u.arrivals.at <= by {
			if !yield(int(u.arrivals.pop())) {
				return
			}
		}
	}
}

// sample notes how many jobs are in the system from a time on.
func (u *usage) sample(at time.Duration, inSystem int) {
	u.integral, u.at, u.inSystem = u.until(at), max(u.at, at), inSystem
}
