package eventlog

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// promises are the reservations that the jobs of a log have. With conservative backfilling they are
// kept: a job starts then or earlier, unless something since the promise took longer than was
// expected or took GPUs away.
type promises struct {
	kept     bool // the log's scheduler keeps them
	made     map[cluster.JobID]madePromise
	setback  int64                           // the last line that breaks promises made before
	slowAt   time.Duration                   // the last run that takes longer than its job was reserved
	expected map[cluster.JobID]time.Duration // the ends of runs by the owners' estimates
}

// madePromise is a start, and the line that promises it.
type madePromise struct {
	start, at time.Duration
	line      int64
}

// newPromises reads from a log's header whether its scheduler keeps promises. One whose users have
// caps does not: a job may wait for its user's other jobs.
func newPromises(h *Header) promises {
	p := promises{slowAt: -1, made: map[cluster.JobID]madePromise{}, expected: map[cluster.JobID]time.Duration{}}
	var scheduler struct {
		Backfill string          `json:"backfill"`
		Caps     json.RawMessage `json:"caps"`
	}
	if raw, ok := h.Scheduler.(json.RawMessage); ok && json.Unmarshal(raw, &scheduler) == nil {
		p.kept = strings.HasPrefix(scheduler.Backfill, "conservative") && scheduler.Caps == nil
	}
	return p
}

// promise checks that a promise is not later than the one before, and remembers it.
func (c *checker) promise(e *Event) error {
	if err := c.keeps(e, e.Start); err != nil {
		return err
	}
	c.promises.made[e.Job] = madePromise{e.Start, e.At, c.report.Events}
	return nil
}

// keeps checks that a job does not start, or is not promised to, later than it was promised.
func (c *checker) keeps(e *Event, start time.Duration) error {
	p := &c.promises
	before, ok := p.made[e.Job]
	if !p.kept || !ok || start <= before.start || before.line <= p.setback || before.at <= p.slowAt || p.overdue(e.At) {
		return nil
	}
	return c.r.wrong("%s of job %d for %s s: it was promised %s s", e.Kind, e.Job, words.AppendSeconds(nil, start),
		words.AppendSeconds(nil, before.start))
}

// overdue reports whether a run takes longer than its owner's estimate.
func (p *promises) overdue(now time.Duration) bool {
	for _, due := range p.expected {
		if due < now {
			return true
		}
	}
	return false
}

// expect notes when a run ends by its owner's estimate. One that is slower than estimates assume,
// or waits for its GPUs, or loads, takes longer than its job was reserved. The scheduler notices in
// its next step.
func (c *checker) expect(e *Event, j *checked) {
	if !c.promises.kept {
		return
	}
	delete(c.promises.made, e.Job)
	if e.Speed < 1 || e.Load > 0 || e.Ready > e.At {
		c.promises.slowAt = e.At
	}
	if e.Speed > 0 && e.Speed <= 1 {
		c.promises.expected[e.Job] = e.Ready + e.Load + time.Duration(float64(j.Estimate-e.Done)/e.Speed)
	}
}

// reported reports whether an event of a job is one of a cluster that may change what was expected.
func (k Kind) reported() bool {
	switch k {
	case Adopt, Work, Refuse, Keep, GiveBack:
		return true
	default:
		return false
	}
}

// runEnds notes the end of a run. Early ones break no promises.
func (c *checker) runEnds(e *Event) {
	p := &c.promises
	if due, ok := p.expected[e.Job]; ok && due < e.At || e.Kind == Preempt || e.Kind == Fail {
		p.setback = c.report.Events
	}
	delete(p.expected, e.Job)
	if e.Kind.ends() {
		delete(p.made, e.Job)
	}
}
