package sim

import (
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// Limits of a result's size.
const (
	// maxSamples is the timeline's length at which every second sample is dropped.
	maxSamples = 100_000
	// maxRunNodes is how many runs are recorded; a run on several nodes counts for each of them. A
	// chart of more would be too large to look at, and runs need more memory than all else.
	maxRunNodes = 50_000
)

// Recorder records what becomes of jobs. Jobs are identified by their index in the list passed to
// NewRecorder.
type Recorder struct {
	jobs  *JobResults
	live  []*openJob // by index; nil for jobs that have not arrived, or have ended
	track Track
	left  int // tracked jobs that have not ended
	ended int // of all jobs
	stops int // preemptions of all jobs

	runs     []Run
	omitRuns bool
	runNodes int  // of the recorded runs
	cutOff   bool // later runs are not recorded

	timeline Timeline
	stride   int // one of so many samples is kept
	skipped  int
	latest   Sample
	sampled  bool

	use *usage

	busy, available float64 // GPU-seconds in use, and available
	nodes           []cluster.Node
	first           time.Duration
}

// NewRecorder returns a recorder of jobs that have not arrived yet.
func NewRecorder(jobs *packed.Jobs, nodes []cluster.Node, track Track) *Recorder {
	r := &Recorder{
		jobs:   newJobResults(jobs),
		live:   make([]*openJob, jobs.Len()),
		track:  track,
		nodes:  nodes,
		stride: 1,
		use:    &usage{arrivals: newArrivals(jobs)},
	}
	for i := range jobs.Len() {
		if track.Counts(jobs.ID(i)) {
			r.left++
		}
	}
	if r.use.arrivals.any() {
		r.first = r.use.arrivals.at
	}
	return r
}

// OmitRuns lets the Recorder record no runs, only their sums.
func (r *Recorder) OmitRuns() { r.omitRuns = true }

// job returns a job that has not ended.
func (r *Recorder) job(i int) *openJob {
	if r.live[i] == nil {
		r.open(i, new(openJob))
	}
	return r.live[i]
}

// open begins the recording of a job, in the memory of j.
func (r *Recorder) open(i int, j *openJob) {
	j.JobResult = r.jobs.unstarted(i)
	r.live[i] = j
}

// Left returns how many tracked jobs have not ended.
func (r *Recorder) Left() int { return r.left }

// Ended returns how many jobs have ended, tracked or not.
func (r *Recorder) Ended() int { return r.ended }

// Started records a job's first start.
func (r *Recorder) Started(i int, at time.Duration) { r.job(i).started(at) }

// Ran begins a run of a job. The placement must not change later.
func (r *Recorder) Ran(i int, at time.Duration, on cluster.Placement) { r.ran(r.job(i), at, on) }

// ran is Ran of a job.
func (r *Recorder) ran(j *openJob, at time.Duration, on cluster.Placement) {
	j.begin(at, on)
	if r.omitRuns || r.cutOff {
		return
	}
	r.runNodes += max(1, on.Nodes())
	if r.cutOff = r.runNodes > maxRunNodes; r.cutOff {
		return
	}
	r.runs = append(r.runs, Run{Job: j.ID, From: at, To: -1, On: on})
	j.run = int32(len(r.runs))
}

// closeRun ends a job's current run, if it is recorded.
func (r *Recorder) closeRun(j *openJob, at time.Duration, preempted bool) {
	if j.run == 0 {
		return
	}
	run := &r.runs[j.run-1]
	run.To, run.Preempted = at, preempted
	j.run = 0
}

// Preempted records a preemption; at is when the GPUs were free.
func (r *Recorder) Preempted(i int, at time.Duration) { r.preempted(r.job(i), at) }

// preempted is Preempted of a job.
func (r *Recorder) preempted(j *openJob, at time.Duration) {
	j.Preemptions++
	r.stops++
	j.end(at, wasPreempted)
	r.closeRun(j, at, true)
}

// Stopped records that a run ended by a failure of the job or of a node.
func (r *Recorder) Stopped(i int, at time.Duration) {
	j := r.job(i)
	j.end(at, hasFailed)
	r.closeRun(j, at, false)
}

// Failed counts a failure.
func (r *Recorder) Failed(i int) { r.job(i).Failures++ }

// Finished records the end of a job.
func (r *Recorder) Finished(i int, at time.Duration, outcome Outcome) {
	j := r.job(i)
	j.Finish, j.Outcome = at, outcome
	r.use.leave(j, at)
	r.closeRun(j, at, false)
	r.ended++
	if r.track.Counts(j.ID) {
		r.left--
	}
	r.jobs.set(i, &j.JobResult)
	r.live[i] = nil
}

// Sample records the state of the cluster from now on. Of several at one time the last counts.
func (r *Recorder) Sample(m Sample) {
	for i := range r.use.arrived(m.At) {
		if !r.jobs.known(i) { // it has not ended already
			r.job(i).arrived = r.use.until(r.jobs.jobs.Submit(i))
		}
	}
	r.use.sample(m.At, m.Running+m.Waiting+m.Held)
	if r.sampled {
		r.accumulate(m.At)
	}
	switch same := r.sampled && m.At == r.latest.At && r.timeline.n > 0 && r.timeline.last.At == m.At; {
	case same:
		r.timeline.last = m
	case r.sampled && m.At == r.latest.At:
		// The first sample of this time was skipped, so this one is, too.
	case r.skipped+1 < r.stride:
		r.skipped++
	default:
		r.skipped = 0
		r.timeline.add(m)
		if r.timeline.n >= maxSamples {
			r.timeline.thin()
			r.stride, r.skipped = r.stride*2, 0
		}
	}
	r.latest, r.sampled = m, true
}

// accumulate adds the use since the latest sample.
func (r *Recorder) accumulate(until time.Duration) {
	if from := max(r.latest.At, r.first); until > from {
		seconds := (until - from).Seconds()
		r.busy += seconds * float64(r.latest.BusyMilli) / cluster.WholeGPU
		r.available += seconds * float64(r.latest.Capacity)
	}
}

// Result ends the recording at a time. A partial result was cut off. It takes over the Recorder's
// memory: the Recorder cannot be used afterwards.
func (r *Recorder) Result(end time.Duration, partial bool) *Result {
	if r.sampled {
		r.accumulate(end)
		if r.timeline.n == 0 || r.timeline.last.At < r.latest.At {
			r.timeline.add(r.latest)
		}
	}
	for i := range r.runs {
		if r.runs[i].To < 0 {
			r.runs[i].To = max(end, r.runs[i].From)
		}
	}
	for i, j := range r.live {
		if j != nil { // the simulation was cut off
			j.end(end, j.ending)
			r.jobs.set(i, &j.JobResult)
		}
	}
	r.live = nil
	r.jobs.sort(r.track)
	result := &Result{Jobs: r.jobs, Summary: summarize(r.jobs), Timeline: r.timeline, Runs: r.runs, RunsCut: r.cutOff, Nodes: r.nodes}
	result.Summary.Partial, result.Summary.Preemptions = partial, r.stops
	result.Summary.Figures = figures(r.jobs, capacityOf(r.nodes))
	if r.available > 0 {
		result.Summary.GPUUtilisation = r.busy / r.available
	}
	return result
}

// capacityOf returns the number of GPUs of some nodes.
func capacityOf(nodes []cluster.Node) (gpus int) {
	for i := range nodes {
		gpus += nodes[i].GPUs
	}
	return gpus
}
