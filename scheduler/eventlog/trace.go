package eventlog

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/workload"
)

// Trace reads a log to its end and returns its jobs, so that a simulation can play them under other
// policies. A job is as long as it has worked, whatever its owner or the log has said before: the
// time on the GPUs that it asks for, without waiting, loading and lost work. A job that ended
// unfinished is as long as it had worked by then. Jobs that never worked, and those that had not
// ended, are left out. Both are counted in the notes.
func Trace(r *Reader) (workload.Trace, error) {
	t := tracer{r: r, jobs: map[cluster.JobID]*traced{}, used: map[cluster.JobID]bool{}}
	t.trace = workload.Trace{Format: "events", Nodes: slices.Clone(r.Header.Nodes), Jobs: &packed.Jobs{}}
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return workload.Trace{}, err
		}
		if err := t.event(&e); err != nil {
			return workload.Trace{}, err
		}
	}
	t.trace.Jobs.Sort(func(a, b *cluster.Job) int { return cmp.Compare(a.ID, b.ID) })
	t.unfinished = len(t.jobs)
	t.notes()
	return t.trace, nil
}

// tracer collects the jobs of a log.
type tracer struct {
	r     *Reader
	trace workload.Trace
	jobs  map[cluster.JobID]*traced // that have not ended
	used  map[cluster.JobID]bool    // the numbers of jobs that the trace has

	cutShort, idle, unfinished, again int
}

// traced is a job with its work so far: done by `from`, and at a speed from then on if it runs.
type traced struct {
	cluster.Job
	running bool
	done    time.Duration
	from    time.Duration
	speed   float64
}

// event applies an event.
func (t *tracer) event(e *Event) error {
	if !(e.Speed >= 0 && e.Speed <= maxSpeed) || e.Done < 0 || e.Ready > math.MaxInt64/2 || e.Load > math.MaxInt64/2 {
		return t.r.wrong("%s of job %d: no job works so fast or so late", e.Kind, e.Job)
	}
	if e.Kind.describes() {
		if t.jobs[e.Job] != nil {
			return t.r.wrong("job %d arrives twice", e.Job)
		}
		t.jobs[e.Job] = &traced{Job: *e.Facts, done: e.Done}
	}
	if e.Kind == Up && e.Machine != nil && int(e.Node) == len(t.trace.Nodes) {
		t.trace.Nodes = append(t.trace.Nodes, *e.Machine)
	}
	j := t.jobs[e.Job]
	switch {
	case e.Kind.ofNode() || e.Kind == End || e.Kind == Reject:
		return nil
	case j == nil:
		return t.r.wrong("%s of job %d, which has not arrived or has ended", e.Kind, e.Job)
	case e.hasGPUs():
		j.running, j.done, j.from, j.speed = true, e.Done, e.Ready+e.Load, e.Speed
	case e.Kind == Work:
		j.from = e.At
	case e.Kind == Preempt:
		j.running, j.done = false, j.work(e.At)
	case e.Kind == Fail || e.Kind == Refuse:
		j.running = false // what was saved is in the line of the next run
	case e.Kind.ends():
		t.end(e, j)
	}
	return nil
}

// maxSpeed is more than any job's speed.
const maxSpeed = 1e6

// work returns how much a job has worked by a time.
func (j *traced) work(at time.Duration) time.Duration {
	if !j.running || at <= j.from {
		return j.done
	}
	const most = math.MaxInt64 / 4
	if float64(at-j.from)*j.speed > most {
		return most
	}
	return min(most, j.done) + scheduler.Work(at-j.from, j.speed)
}

// end adds a job to the trace.
func (t *tracer) end(e *Event, j *traced) {
	delete(t.jobs, e.Job)
	j.Length = j.work(e.At)
	switch {
	case t.used[e.Job]:
		t.again++
		return
	case e.Kind != Finish && j.Length == 0:
		t.idle++
		return
	case e.Kind != Finish:
		t.cutShort++
	}
	t.used[e.Job] = true
	t.trace.Jobs.Add(&j.Job)
}

// notes says what was left out or assumed.
func (t *tracer) notes() {
	for _, note := range []struct {
		jobs int
		text string
	}{
		{t.cutShort, "withdrawn or given up: as long as they had worked"},
		{t.idle, "left out: they ended before they had worked"},
		{t.unfinished, "left out: they had not ended"},
		{t.again, "left out: an earlier job had the same number"},
	} {
		if note.jobs > 0 {
			t.trace.Notes = append(t.trace.Notes, words.Count(note.jobs, "job", "jobs")+" "+note.text)
		}
	}
}
