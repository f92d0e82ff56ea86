package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Result is the outcome of a simulation.
type Result struct {
	// Jobs are the tracked jobs, by number.
	Jobs    *JobResults
	Summary Summary
	// Timeline are samples at changes of the cluster's state; each holds until the next.
	Timeline Timeline
	// Runs are the times in which jobs had GPUs, by start: the bars of a Gantt chart.
	Runs []Run
	// RunsCut is set if there were so many that Runs has only the first ones.
	RunsCut bool
	// Nodes are the cluster.
	Nodes []cluster.Node
}

// Outcome is what became of a job.
type Outcome uint8

const (
	// Unfinished jobs had not ended when the simulation was cut off.
	Unfinished Outcome = iota
	// Done jobs have finished.
	Done
	// Lost jobs failed more often than they may.
	Lost
)

// JobResult is the result of one job.
type JobResult struct {
	ID       cluster.JobID
	Name     string
	User     string
	Priority int
	GPUs     int // that it asks for

	Submit time.Duration
	// Start is when it first got GPUs; valid if Started.
	Start time.Duration
	// Finish is when it was done or lost; valid unless Unfinished.
	Finish  time.Duration
	Outcome Outcome

	// Contention is the mean number of jobs in the system during the job's life.
	Contention float64

	Failures int

	// What each run reads or changes is together, from here on.
	Length      time.Duration
	Share       int // of each GPU, in thousandths
	Started     bool
	Preemptions int

	// Ran is how long it had GPUs, loading included, and GPUSeconds how many GPU-seconds that were.
	Ran        time.Duration
	GPUSeconds float64

	// Runs are how often it got GPUs: first, and after preemptions on the same GPUs, on others
	// (Migrations) or on another number of GPUs (Resizes), and after failures (Restarts).
	Runs, Migrations, Resizes, Restarts int32

	// Placement is that of its last run; nil if the simulator only counts GPUs.
	Placement cluster.Placement
	counted   int32 // the number of those GPUs
}

// lastGPUs returns how many GPUs the last run had.
func (j *JobResult) lastGPUs() int { return int(j.counted) }

// JCT returns the job completion time, from submission to the end.
func (j *JobResult) JCT() time.Duration { return j.Finish - j.Submit }

// Run is a job on its GPUs for a time.
type Run struct {
	Job      cluster.JobID
	From, To time.Duration
	On       cluster.Placement // nil if the simulator only counts GPUs
	// Preempted runs were stopped for another job; others ended by themselves or with their node.
	Preempted bool
}

// Track selects jobs: those from Lo to below Hi. The zero value selects all.
type Track struct {
	Lo, Hi cluster.JobID
}

// All reports whether every job is tracked.
func (t Track) All() bool { return t == Track{} }

// Counts reports whether a job is tracked.
func (t Track) Counts(id cluster.JobID) bool { return t.All() || t.Lo <= id && id < t.Hi }

// String returns LO:HI, or "" for all.
func (t Track) String() string {
	if t.All() {
		return ""
	}
	return fmt.Sprintf("%d:%d", t.Lo, t.Hi)
}

// ParseTrack parses LO:HI.
func ParseTrack(text string) (Track, error) {
	low, high, found := strings.Cut(text, ":")
	lo, errLo := strconv.ParseInt(low, 10, 64)
	hi, errHi := strconv.ParseInt(high, 10, 64)
	if !found || errLo != nil || errHi != nil || lo < 0 || hi <= lo {
		return Track{}, fmt.Errorf(
			"%q is not LO:HI, two job numbers with LO < HI: 1000:1301 counts jobs 1000 to 1300",
			text,
		)
	}
	return Track{cluster.JobID(lo), cluster.JobID(hi)}, nil
}

// String returns what jobs.csv has: done, failed or unfinished.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Lost:
		return "failed"
	case Unfinished:
	}
	return "unfinished"
}
