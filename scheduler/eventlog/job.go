package eventlog

import (
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
)

// job is what the log says of a job so far.
type job struct {
	last     lastRun
	before   lastRun // what last was before the current run began
	highest  int     // the highest number that a run has had
	stopped  int     // the run that may be kept: it was stopped, and no later one has begun to work
	admitted bool
	running  bool
	promised time.Duration
}

// lastRun is the current run of a job, or the last one.
type lastRun struct {
	run    int               // 0: none
	on     cluster.Placement // nil if unknown
	failed bool
}

// kindOf returns what it is to the job to get these GPUs.
func (j *job) kindOf(on cluster.Placement) Kind {
	was := &j.last
	switch {
	case was.run == 0:
		return Start
	case was.failed:
		return Restart
	case len(was.on) == 0:
		return Migrate
	case len(on) > len(was.on):
		return Grow
	case len(on) < len(was.on):
		return Shrink
	case slices.Equal(on, was.on):
		return Resume
	}
	return Migrate
}

// begin lets a run begin.
func (j *job) begin(run int, on cluster.Placement) {
	j.before = j.last
	j.last = lastRun{run: run, on: on}
	j.highest, j.running, j.promised = run, true, 0
}

// refuse takes the current run back.
func (j *job) refuse() {
	j.last, j.running = j.before, false
}

// stop ends the current run. If the job itself has failed, it cannot be kept.
func (j *job) stop(failed, keepable bool) {
	j.running, j.last.failed, j.stopped = false, failed, 0
	if keepable {
		j.stopped = j.last.run
	}
}

// goOn lets a run go on, on these GPUs: it was kept or adopted, or has fewer now.
func (j *job) goOn(run int, on cluster.Placement) {
	j.last = lastRun{run: run, on: on}
	j.running, j.stopped = true, 0
}

// adopt returns a job as it is taken over.
func adopted(e *Event) *job {
	j := &job{admitted: e.Phase != Held, highest: max(e.Run, e.LastRun), running: e.Phase == Running}
	j.last = lastRun{run: e.Run, on: e.On}
	if !j.running {
		j.stopped = e.Run
	}
	return j
}
