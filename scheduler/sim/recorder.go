package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Limits of a result's size.
const (
	// maxSamples is the timeline's length at which every second sample is dropped.
	maxSamples = 100_000
	// maxRunNodes is how many runs are recorded; a run on several nodes counts for each of them. A
	// chart of more would be too large to look at, and runs need more memory than all else.
	maxRunNodes = 50_000
)

// Recorder records what becomes of jobs. Jobs are identified by their index in the slice passed to
// NewRecorder.
type Recorder struct {
	jobs  []JobResult
	track Track
	left  int // tracked jobs that have not ended
	ended int // of all jobs
	stops int // preemptions of all jobs

	runs     []Run
	open     []int32 // per job, the index of its current run plus one; nil if runs are not recorded
	runNodes int     // of the recorded runs
	cutOff   bool    // later runs are not recorded

	timeline []Sample
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
func NewRecorder(jobs []cluster.Job, nodes []cluster.Node, track Track) *Recorder {
	r := &Recorder{
		jobs:   make([]JobResult, len(jobs)),
		track:  track,
		nodes:  nodes,
		stride: 1,
		open:   make([]int32, len(jobs)),
	}
	for i := range jobs {
		j := &jobs[i]
		r.jobs[i] = JobResult{
			ID: j.ID, Name: j.Name, User: j.User, Priority: j.Priority, GPUs: j.GPUs, Share: j.Share, Length: j.Length,
			Submit: j.Submit,
		}
		if j.Share == 0 {
			r.jobs[i].Share = cluster.WholeGPU
		}
		if track.Counts(j.ID) {
			r.left++
		}
		if i == 0 || j.Submit < r.first {
			r.first = j.Submit
		}
	}
	r.use = newUsage(r.jobs)
	return r
}

// OmitRuns lets the Recorder record no runs, only their sums.
func (r *Recorder) OmitRuns() { r.open = nil }

// Left returns how many tracked jobs have not ended.
func (r *Recorder) Left() int { return r.left }

// Ended returns how many jobs have ended, tracked or not.
func (r *Recorder) Ended() int { return r.ended }

// Started records a job's first start.
func (r *Recorder) Started(i int, at time.Duration) {
	if j := &r.jobs[i]; !j.Started {
		j.Started, j.Start = true, at
	}
}

// Ran begins a run of a job. The placement must not change later.
func (r *Recorder) Ran(i int, at time.Duration, on cluster.Placement) {
	r.use.begin(i, at, on)
	if r.open == nil || r.cutOff {
		return
	}
	r.runNodes += max(1, on.Nodes())
	if r.cutOff = r.runNodes > maxRunNodes; r.cutOff {
		return
	}
	r.runs = append(r.runs, Run{Job: r.jobs[i].ID, From: at, To: -1, On: on})
	r.open[i] = int32(len(r.runs))
}

// closeRun ends a job's current run, if runs are recorded.
func (r *Recorder) closeRun(i int, at time.Duration, preempted bool) {
	if r.open == nil || r.open[i] == 0 {
		return
	}
	run := &r.runs[r.open[i]-1]
	run.To, run.Preempted = at, preempted
	r.open[i] = 0
}

// Preempted records a preemption; at is when the GPUs were free.
func (r *Recorder) Preempted(i int, at time.Duration) {
	r.jobs[i].Preemptions++
	r.stops++
	r.use.end(i, at, wasPreempted)
	r.closeRun(i, at, true)
}

// Stopped records that a run ended by a failure of the job or of a node.
func (r *Recorder) Stopped(i int, at time.Duration) {
	r.use.end(i, at, hasFailed)
	r.closeRun(i, at, false)
}

// Failed counts a failure.
func (r *Recorder) Failed(i int) { r.jobs[i].Failures++ }

// Finished records the end of a job.
func (r *Recorder) Finished(i int, at time.Duration, outcome Outcome) {
	j := &r.jobs[i]
	j.Finish, j.Outcome = at, outcome
	r.use.leave(i, at)
	r.closeRun(i, at, false)
	r.ended++
	if r.track.Counts(j.ID) {
		r.left--
	}
}

// Sample records the state of the cluster from now on. Of several at one time the last counts.
func (r *Recorder) Sample(m Sample) {
	r.use.sample(m.At, m.Running+m.Waiting+m.Held)
	if r.sampled {
		r.accumulate(m.At)
	}
	switch same := r.sampled && m.At == r.latest.At && len(r.timeline) > 0 && r.timeline[len(r.timeline)-1].At == m.At; {
	case same:
		r.timeline[len(r.timeline)-1] = m
	case r.sampled && m.At == r.latest.At:
		// The first sample of this time was skipped, so this one is, too.
	case r.skipped+1 < r.stride:
		r.skipped++
	default:
		r.skipped = 0
		r.timeline = append(r.timeline, m)
		if len(r.timeline) >= maxSamples {
			r.thin()
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

// thin drops every second sample.
func (r *Recorder) thin() {
	kept := r.timeline[:0]
	for i, m := range r.timeline {
		if i%2 == 0 {
			kept = append(kept, m)
		}
	}
	r.timeline, r.stride, r.skipped = kept, r.stride*2, 0
}

// Result ends the recording at a time. A partial result was cut off. It takes over the Recorder's
// memory: the Recorder cannot be used afterwards.
func (r *Recorder) Result(end time.Duration, partial bool) *Result {
	if r.sampled {
		r.accumulate(end)
		if last := len(r.timeline) - 1; last < 0 || r.timeline[last].At < r.latest.At {
			r.timeline = append(r.timeline, r.latest)
		}
	}
	for i := range r.runs {
		if r.runs[i].To < 0 {
			r.runs[i].To = max(end, r.runs[i].From)
		}
	}
	r.use.stop(end)
	counted := r.jobs
	if !r.track.All() {
		counted = slices.DeleteFunc(counted, func(j JobResult) bool { return !r.track.Counts(j.ID) })
	}
	slices.SortFunc(counted, func(a, b JobResult) int { return cmp.Compare(a.ID, b.ID) })
	result := &Result{Jobs: counted, Summary: summarize(counted), Timeline: r.timeline, Runs: r.runs, RunsCut: r.cutOff, Nodes: r.nodes}
	result.Summary.Partial, result.Summary.Preemptions = partial, r.stops
	result.Summary.Figures = figures(counted, capacityOf(r.nodes))
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
