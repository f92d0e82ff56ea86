package sim

import (
	"cmp"
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

// holding is what a job holds now.
type holding struct {
	since  time.Duration
	gpus   int32 // 0: none
	ending runEnding
}

// usage adds up what jobs hold, and how many jobs were in the system while they were.
type usage struct {
	jobs []JobResult
	now  []holding

	arrivals []int32   // of jobs that have not arrived, next first
	arrived  []float64 // per job, the integral at its arrival
	integral float64   // of the number of jobs in the system over time, in job-seconds, until at
	inSystem int       // from then on
	at       time.Duration
}

func newUsage(jobs []JobResult) *usage {
	u := &usage{
		jobs: jobs, now: make([]holding, len(jobs)), arrived: make([]float64, len(jobs)), arrivals: make([]int32, len(jobs)),
	}
	for i := range jobs {
		u.arrivals[i] = int32(i)
	}
	slices.SortFunc(u.arrivals, func(a, b int32) int { return cmp.Compare(jobs[a].Submit, jobs[b].Submit) })
	return u
}

// begin notes that a job has GPUs from now on; on is nil if the simulator only counts them.
func (u *usage) begin(i int, at time.Duration, on cluster.Placement) {
	j, now := &u.jobs[i], &u.now[i]
	gpus := len(on)
	if on == nil {
		gpus = j.GPUs
	}
	switch {
	case now.ending == hasFailed:
		j.Restarts++
	case now.ending == wasPreempted && gpus != j.lastGPUs():
		j.Resizes++
	case now.ending == wasPreempted && !slices.Equal(on, j.Placement):
		j.Migrations++
	}
	j.Runs++
	j.Placement, j.counted = on, int32(gpus)
	now.since, now.gpus = at, int32(gpus)
}

// end notes that a job has lost its GPUs, if it had any.
func (u *usage) end(i int, at time.Duration, ending runEnding) {
	j, now := &u.jobs[i], &u.now[i]
	if now.gpus > 0 && at > now.since {
		j.Ran += at - now.since
		j.GPUSeconds += (at - now.since).Seconds() * float64(now.gpus) * float64(j.Share) / cluster.WholeGPU
	}
	now.gpus, now.ending = 0, ending
}

// leave notes that a job has ended.
func (u *usage) leave(i int, at time.Duration) {
	u.end(i, at, neverRan)
	if j := &u.jobs[i]; at > j.Submit {
		j.Contention = (u.until(at) - u.arrived[i]) / (at - j.Submit).Seconds()
	}
}

// until returns the integral until a time that is not before the last sample.
func (u *usage) until(at time.Duration) float64 {
	return u.integral + float64(u.inSystem)*max(0, at-u.at).Seconds()
}

// sample notes how many jobs are in the system from a time on.
func (u *usage) sample(at time.Duration, inSystem int) {
	for len(u.arrivals) > 0 && u.jobs[u.arrivals[0]].Submit <= at {
		u.arrived[u.arrivals[0]] = u.until(u.jobs[u.arrivals[0]].Submit)
		u.arrivals = u.arrivals[1:]
	}
	u.integral, u.at, u.inSystem = u.until(at), max(u.at, at), inSystem
}

// stop ends all holdings: the simulation was cut off.
func (u *usage) stop(at time.Duration) {
	for i := range u.now {
		u.end(i, at, u.now[i].ending)
	}
}
