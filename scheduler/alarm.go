package scheduler

import (
	"container/heap"
	"slices"
	"time"
)

// alarm is a time at which something about a job changes although nothing happens.
type alarm struct {
	at   time.Duration
	job  *Job
	mark int // what the alarm is valid for: one that was set for another run or rank of the job is void
}

// alarms are sorted by time; those of one time by the job's number.
type alarms []alarm

func (a alarms) Len() int { return len(a) }
func (a alarms) Less(i, k int) bool {
	return a[i].at < a[k].at || a[i].at == a[k].at && a[i].job.facts.ID < a[k].job.facts.ID
}
func (a alarms) Swap(i, k int) { a[i], a[k] = a[k], a[i] }
func (a *alarms) Push(x any)   { *a = append(*a, x.(alarm)) }
func (a *alarms) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = alarm{}
	*a = (*a)[:last]
	return x
}

// due takes the first alarm if it is for now or earlier and still means something.
func (a *alarms) due(now time.Duration, valid func(alarm) bool) (alarm, bool) {
	for len(*a) > 0 && (*a)[0].at <= now {
		if x := heap.Pop(a).(alarm); valid(x) {
			return x, true
		}
	}
	return alarm{}, false
}

// next is when the first alarm goes off that still means something.
func (a *alarms) next(valid func(alarm) bool) (time.Duration, bool) {
	for len(*a) > 0 {
		if valid((*a)[0]) {
			return (*a)[0].at, true
		}
		heap.Pop(a)
	}
	return 0, false
}

// set adds an alarm, and throws void ones away once they are the most.
func (a *alarms) set(x alarm, jobs int, valid func(alarm) bool) {
	if len(*a) > 64+4*jobs {
		*a = slices.DeleteFunc(*a, func(x alarm) bool { return !valid(x) })
		heap.Init(a)
	}
	heap.Push(a, x)
}
