package autoselect

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/phos-gpu/phos/scheduler"
)

// checkInterval is the number of steps between two checks of the lower bound.
const checkInterval = 32

// drain simulates an engine's jobs to their ends, by their estimates, without further arrivals. It
// returns the sum of their completion times in seconds, their number, and the steps taken. The
// engine predicts the end of every run that it starts, so only a clock is missing. drain returns
// early, with a lower bound of the sum, once that exceeds most.
func drain(e *scheduler.Engine, steps int, most float64) (sum float64, jobs, took int) {
	now, end := e.Now(), func(j *scheduler.Job, at time.Duration) {
		sum += (at - j.Submitted()).Seconds()
		jobs++
	}
	for ; took < steps; took++ {
		events := due(e, now, end)
		_, _ = e.Step(now, events) // policy errors are reported by the real engine
		at, ok := next(e)
		if !ok || took%checkInterval == checkInterval-1 && withUnfinished(sum, e, now) > most {
			break
		}
		now = max(now, at)
	}
	return withUnfinished(sum, e, now), jobs + e.Live(), took
}

// withUnfinished adds the completion times of unfinished jobs to a sum, as if no job waited from
// now on. If all GPUs are equally fast this is a lower bound.
func withUnfinished(sum float64, e *scheduler.Engine, now time.Duration) float64 {
	for _, jobs := range []iter.Seq[*scheduler.Job]{e.Running(), e.Waiting(), slices.Values(e.Held())} {
		for j := range jobs {
			sum += (now + j.Remaining(now) - j.Submitted()).Seconds()
		}
	}
	return sum
}

// sumRunning returns what drain would return for an engine whose jobs all run. It does not depend
// on the policies, because no job has to be ordered or admitted.
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

// due returns the ends of the runs that are over by now.
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

// next returns when the next event is due.
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
