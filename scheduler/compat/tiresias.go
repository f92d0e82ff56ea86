package compat

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
	"github.com/phos-gpu/phos/scheduler/sim"
)

// never is later than any time.
const never = time.Duration(math.MaxInt64)

// Tiresias simulates as Tiresias's simulator does with placement by count: a job fits if enough
// GPUs are free on any nodes. Its quirks: times are truncated to whole seconds; every job that fits
// starts, and only with fifo the first that does not ends the walk; sjf means the fewest GPUs
// first; and a demotion is checked at (limit - executed)/GPUs from now, rounded down, where
// executed is time even for dlas-gpu, so that a job of several GPUs may be demoted late. Stopping
// costs nothing.
func Tiresias(ctx context.Context, jobs []cluster.Job, o Options) (*sim.Result, error) {
	if err := checkOrder("tiresias", o.Order); err != nil {
		return nil, err
	}
	if load, err := ParseAdmission(o.Admission); err != nil || load != 0 {
		return nil, cmp.Or(
			err,
			fmt.Errorf("profile tiresias: admission %q: %w; it admits all jobs", o.Admission, ErrUnknown),
		)
	}
	gpus := capacity(o.Nodes)
	if err := checkSupported("tiresias", jobs, gpus); err != nil {
		return nil, err
	}
	if err := checkLimits(o); err != nil {
		return nil, err
	}
	whole := slices.Clone(jobs)
	for i := range whole {
		whole[i].Submit = whole[i].Submit.Truncate(time.Second)
		whole[i].Length = whole[i].Length.Truncate(time.Second)
	}
	t := &tiresias{
		Options: o, jobs: whole, gpus: gpus, states: make([]tiresiasJob, len(jobs)), arrivals: arrivals(whole),
		queues: make([][]int, len(o.Limits)+1), rec: sim.NewRecorder(packed.Of(whole...), o.Nodes, o.Track), demotion: never,
	}
	return t.run(ctx)
}

func checkLimits(o Options) error {
	if o.Order != "dlas" && o.Order != "dlas-gpu" {
		return nil
	}
	if len(o.Limits) == 0 {
		return fmt.Errorf("profile tiresias: order %s: %w: it needs them, as --limits 3250,7200", o.Order, ErrLimits)
	}
	for i, limit := range o.Limits {
		if limit < time.Second || limit%time.Second != 0 || i > 0 && limit <= o.Limits[i-1] {
			return fmt.Errorf(
				"profile tiresias: %w: want ascending whole seconds, not %v",
				ErrLimits,
				o.Limits,
			)
		}
	}
	return nil
}

// tiresias is a running simulation.
type tiresias struct {
	Options
	jobs     []cluster.Job
	gpus     int
	states   []tiresiasJob
	rec      *sim.Recorder
	arrivals []int
	active   []int   // in the order of arrival, or as sorted last
	queues   [][]int // of dlas and dlas-gpu; every active index is in one
	last     time.Duration
	demotion time.Duration // when the next one is due
	ending   []int         // the jobs that end next
}

type tiresiasJob struct {
	executed time.Duration
	queue    int
	running  bool
}

func (t *tiresias) run(ctx context.Context) (*sim.Result, error) {
	for t.rec.Left() > 0 {
		if ctx.Err() != nil {
			return t.rec.Result(t.last, true), nil
		}
		now, end := t.next()
		if now > sim.Horizon {
			return nil, fmt.Errorf("profile tiresias: %w", sim.ErrHorizon)
		}
		arrival := never
		if len(t.arrivals) > 0 {
			arrival = t.jobs[t.arrivals[0]].Submit
		}
		if now == end {
			t.finish(now)
		}
		if now == arrival {
			t.arrive(now)
		}
		t.advance(now)
		t.schedule(now)
		t.findNextEnd(now)
		t.rec.Sample(t.sample(now))
		if t.Progress != nil {
			t.Progress(t.rec.Ended(), len(t.jobs))
		}
	}
	return t.rec.Result(t.last, false), nil
}

// next returns when something happens: an end, an arrival or, if it is before both, a demotion
// alone.
func (t *tiresias) next() (now, end time.Duration) {
	end = never
	if len(t.ending) > 0 {
		end = t.endOf(t.ending[0], t.last)
	}
	now = end
	if len(t.arrivals) > 0 {
		now = min(now, t.jobs[t.arrivals[0]].Submit)
	}
	return min(now, t.demotion), end
}

// endOf returns when a running job ends.
func (t *tiresias) endOf(i int, now time.Duration) time.Duration {
	return now + t.jobs[i].Length - t.states[i].executed
}

// finish ends the jobs in t.ending and removes them from their queues.
func (t *tiresias) finish(now time.Duration) {
	for _, i := range t.ending {
		t.states[i].running = false
		t.rec.Finished(i, now, sim.Done)
		is := func(each int) bool { return each == i }
		t.active = slices.DeleteFunc(t.active, is)
		queue := &t.queues[t.states[i].queue]
		*queue = slices.DeleteFunc(*queue, is)
	}
}

// arrive adds the jobs that are submitted now to the first queue.
func (t *tiresias) arrive(now time.Duration) {
	for len(t.arrivals) > 0 && t.jobs[t.arrivals[0]].Submit == now {
		t.active, t.queues[0] = append(t.active, t.arrivals[0]), append(t.queues[0], t.arrivals[0])
		t.arrivals = t.arrivals[1:]
	}
}

// advance runs the running jobs until now, and moves jobs that have reached their limit to the end
// of the next queue.
func (t *tiresias) advance(now time.Duration) {
	elapsed := now - t.last
	t.last = now
	for _, i := range t.active {
		s := &t.states[i]
		if !s.running {
			continue
		}
		s.executed += elapsed
		if s.queue < len(t.Limits) && t.service(i) >= t.Limits[s.queue] {
			queue := &t.queues[s.queue]
			*queue = slices.DeleteFunc(*queue, func(each int) bool { return each == i })
			s.queue++
			t.queues[s.queue] = append(t.queues[s.queue], i)
		}
	}
}

// service returns the attained service in the unit of the limits.
func (t *tiresias) service(i int) time.Duration {
	if t.Order == "dlas" {
		return t.states[i].executed
	}
	return t.states[i].executed * time.Duration(t.jobs[i].GPUs)
}

// schedule allocates the GPUs again, in order.
func (t *tiresias) schedule(now time.Duration) {
	switch t.Order {
	case "fifo", "fjf":
		t.start(now)
		return
	case "dlas", "dlas-gpu":
		t.share(now, slices.Concat(t.queues...))
		for _, queue := range t.queues {
			t.runningFirst(queue)
		}
		return
	}
	// Equal jobs keep their order.
	slices.SortStableFunc(t.active, func(a, b int) int { return cmp.Compare(t.key(a), t.key(b)) })
	t.share(now, t.active)
}

// key returns what a job is sorted by.
func (t *tiresias) key(i int) time.Duration {
	remaining := t.jobs[i].Length - t.states[i].executed
	switch t.Order {
	case "sjf":
		return time.Duration(t.jobs[i].GPUs)
	case "srsf":
		return remaining * time.Duration(t.jobs[i].GPUs)
	}
	return remaining // srtf
}

// start is for policies without preemption.
func (t *tiresias) start(now time.Duration) {
	free := t.gpus - t.busy()
	for _, i := range t.active {
		if t.states[i].running {
			continue
		}
		switch {
		case t.jobs[i].GPUs <= free:
			free -= t.jobs[i].GPUs
			t.startJob(i, now)
		case t.Order == "fifo":
			return
		}
	}
}

// share is for policies with preemption: a job that does not get its GPUs is stopped, and the next
// one may fit.
func (t *tiresias) share(now time.Duration, order []int) {
	free := t.gpus
	for _, i := range order {
		s := &t.states[i]
		if t.jobs[i].GPUs <= free {
			free -= t.jobs[i].GPUs
			if !s.running {
				t.startJob(i, now)
			}
		} else if s.running {
			s.running = false
			t.rec.Preempted(i, now)
		}
	}
}

func (t *tiresias) startJob(i int, now time.Duration) {
	t.states[i].running = true
	t.rec.Started(i, now)
	t.rec.Ran(i, now, nil)
}

// runningFirst moves waiting jobs behind running ones.
func (t *tiresias) runningFirst(queue []int) {
	rank := func(i int) int {
		if t.states[i].running {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(queue, func(a, b int) int { return rank(a) - rank(b) })
}

// findNextEnd finds the jobs that end next and when the next demotion must be checked.
func (t *tiresias) findNextEnd(now time.Duration) {
	first := never
	t.ending, t.demotion = t.ending[:0], never
	for _, i := range t.active {
		s := &t.states[i]
		if !s.running {
			continue
		}
		if end := t.endOf(i, now); end < first {
			first, t.ending = end, append(t.ending[:0], i)
		} else if end == first {
			t.ending = append(t.ending, i)
		}
		if s.queue < len(t.Limits) {
			left := t.Limits[s.queue] - s.executed
			if t.Order == "dlas-gpu" {
				left = (left / time.Duration(t.jobs[i].GPUs)).Truncate(time.Second)
			}
			// The original loops forever at one time if this is 0.
			t.demotion = min(t.demotion, now+max(left, time.Second))
		}
	}
}

// busy returns the number of GPUs of running jobs.
func (t *tiresias) busy() (gpus int) {
	for _, i := range t.active {
		if t.states[i].running {
			gpus += t.jobs[i].GPUs
		}
	}
	return gpus
}

// sample returns the state of the cluster.
func (t *tiresias) sample(now time.Duration) sim.Sample {
	m := sim.Sample{At: now, BusyMilli: int64(t.busy()) * cluster.WholeGPU, Capacity: t.gpus}
	for _, i := range t.active {
		m.Demand += t.jobs[i].GPUs
		if t.states[i].running {
			m.Running++
		} else {
			m.Waiting++
		}
	}
	return m
}
