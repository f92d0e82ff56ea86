package autoselect

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// checkInterval is how many steps pass between two looks at what the jobs take at least.
const checkInterval = 32

// drain plays an engine's jobs to their ends, which come when the estimates say, and nothing else
// arrives. It answers with the sum of their completion times, in seconds, their number, and how
// many steps it took. The engine itself knows when whatever it has started is due, so nothing but a
// clock is missing. It ends early once the sum is certain to be more than most: then the answer is
// what it is at least.
func drain(e *scheduler.Engine, steps int, most float64) (sum float64, jobs, took int) {
	now, end := e.Now(), func(j *scheduler.Job, at time.Duration) {
		sum += (at - j.Submitted()).Seconds()
		jobs++
	}
	for ; took < steps; took++ {
		events := due(e, now, end)
		_, _ = e.Step(now, events) // what a policy does wrong is said when it does so for real
		at, ok := next(e)
		if !ok || took%checkInterval == checkInterval-1 && withUnfinished(sum, e, now) > most {
			break
		}
		now = max(now, at)
	}
	return withUnfinished(sum, e, now), jobs + e.Live(), took
}

// withUnfinished adds the completion times of the jobs that have not ended by now to a sum, as if nobody
// waited from now on. Where no GPUs are faster than others, time only adds to that.
func withUnfinished(sum float64, e *scheduler.Engine, now time.Duration) float64 {
	for _, jobs := range []iter.Seq[*scheduler.Job]{e.Running(), e.Waiting(), slices.Values(e.Held())} {
		for j := range jobs {
			sum += (now + j.Remaining(now) - j.Submitted()).Seconds()
		}
	}
	return sum
}

// sumRunning is what drain says of an engine of which every job runs, under whatever policies: nobody
// is left to put in an order or to let in.
func sumRunning(e *scheduler.Engine) (sum float64, jobs int) {
	type end struct {
		at  time.Duration
		job *scheduler.Job
	}
	var ends []end
	for j := range e.Running() {
		ends = append(ends, end{j.DueInFork(e.Now()), j})
	}
	slices.SortFunc(
		ends,
		func(a, b end) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job.ID(), b.job.ID())) },
	)
	for _, end := range ends {
		sum += (max(end.at, e.Now()) - end.job.Submitted()).Seconds()
	}
	return sum, len(ends)
}

// due are the ends of the runs that are over by now.
func due(e *scheduler.Engine, now time.Duration, end func(*scheduler.Job, time.Duration)) []scheduler.Event {
	var events []scheduler.Event
	for j := range e.Running() {
		if j.Due() > now {
			break
		}
		events = append(events, scheduler.Event{Kind: scheduler.Finished, Job: j.ID()})
		end(j, now)
	}
	return events
}

// next is when something happens again.
func next(e *scheduler.Engine) (at time.Duration, ok bool) {
	for j := range e.Running() {
		at, ok = j.Due(), true
		break
	}
	if wake, wants := e.Wake(); wants && (!ok || wake < at) {
		at, ok = wake, true
	}
	return at, ok
}
