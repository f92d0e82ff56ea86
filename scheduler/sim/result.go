package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/phos-gpu/phos/cluster"
)

// Result is what a simulation came to.
type Result struct {
	// Jobs are those that count, by number.
	Jobs    []JobResult
	Summary Summary
	// Timeline are moments at which something changed, each holding until the next.
	Timeline []Sample
	// Runs are the stretches of time in which jobs had GPUs, by their beginnings: the bars of a Gantt
	// chart. They are empty where the trace has more jobs than Options.RunsUpTo.
	Runs []Run
	// Nodes are the cluster.
	Nodes []cluster.Node
}

// Outcome says what became of a job.
type Outcome uint8

const (
	// Unfinished jobs were there when the simulation ended: it was cut off.
	Unfinished Outcome = iota
	// Done jobs have finished.
	Done
	// Lost jobs failed once more than they may.
	Lost
)

// JobResult is what became of a job.
type JobResult struct {
	ID   cluster.JobID
	Name string
	User string
	GPUs int

	Submit time.Duration
	// Start is when it first got its GPUs; only where Started.
	Start   time.Duration
	Started bool
	// Finish is when it was done, or lost for good; only where the Outcome says so.
	Finish  time.Duration
	Outcome Outcome

	Preemptions int
	Failures    int
}

// JCT is the time from submission to the end.
func (j *JobResult) JCT() time.Duration { return j.Finish - j.Submit }

// Sample is the state of the cluster from a time on.
type Sample struct {
	At            time.Duration
	Running       int // jobs
	Waiting, Held int // jobs that want GPUs, and those that are not admitted yet
	Demand        int // GPUs that admitted jobs ask for, running ones included
	BusyMilli     int64
	Capacity      int // GPUs on nodes that are up
}

// Run is a job on its GPUs for a while.
type Run struct {
	Job      cluster.JobID
	From, To time.Duration
	On       cluster.Placement // nil where the simulator only counts GPUs
	// Preempted runs were stopped for another job; others ended by themselves or with their node.
	Preempted bool
}

// Track says which jobs count: those from Lo to below Hi. Its zero value is all.
type Track struct {
	Lo, Hi cluster.JobID
}

// All reports whether every job counts.
func (t Track) All() bool { return t == Track{} }

// Counts reports whether a job does.
func (t Track) Counts(id cluster.JobID) bool { return t.All() || t.Lo <= id && id < t.Hi }

// String is LO:HI.
func (t Track) String() string {
	if t.All() {
		return ""
	}
	return fmt.Sprintf("%d:%d", t.Lo, t.Hi)
}

// ParseTrack reads LO:HI.
func ParseTrack(text string) (Track, error) {
	low, high, found := strings.Cut(text, ":")
	lo, errLo := strconv.ParseInt(low, 10, 64)
	hi, errHi := strconv.ParseInt(high, 10, 64)
	if !found || errLo != nil || errHi != nil || lo < 0 || hi <= lo {
		return Track{}, fmt.Errorf(
			"%q is no LO:HI, two job numbers of which the first is the smaller: 1000:1301 counts jobs 1000 to 1300",
			text,
		)
	}
	return Track{cluster.JobID(lo), cluster.JobID(hi)}, nil
}
