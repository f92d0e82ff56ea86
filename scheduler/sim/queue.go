package sim

import "time"

// runEnd is when a run would end without preemption.
type runEnd struct {
	at       time.Duration
	job, run int32
	fails    bool
}

func (e runEnd) before(other runEnd) bool {
	return e.at < other.at || e.at == other.at && e.job < other.job
}

// endQueue is a heap of the ends of all current runs, indexed by job: most runs are preempted long
// before they end.
type endQueue struct {
	all      []runEnd
	position []int32 // by job, its index in all plus 1; 0 if it has no entry
}

func (q *endQueue) size() int     { return len(q.all) }
func (q *endQueue) first() runEnd { return q.all[0] }

// push adds the end of a job that has none.
func (q *endQueue) push(e runEnd) {
	q.all = append(q.all, e)
	q.rise(len(q.all)-1, e)
}

// pop removes and returns the first end. The queue must not be empty.
func (q *endQueue) pop() runEnd {
	top := q.all[0]
	q.remove(top.job)
	return top
}

// remove removes a job's end, if it has one.
func (q *endQueue) remove(job int32) {
	at := int(q.position[job]) - 1
	if at < 0 {
		return
	}
	q.position[job] = 0
	end := len(q.all) - 1
	last := q.all[end]
	q.all = q.all[:end]
	switch {
	case at == end:
	case at > 0 && last.before(q.all[(at-1)/2]):
		q.rise(at, last)
	default:
		q.sink(at, last)
	}
}

// rise places an end at an index or above it.
func (q *endQueue) rise(at int, e runEnd) {
	for at > 0 && e.before(q.all[(at-1)/2]) {
		q.put(at, q.all[(at-1)/2])
		at = (at - 1) / 2
	}
	q.put(at, e)
}

// sink places an end at an index or below it.
func (q *endQueue) sink(at int, e runEnd) {
	for {
		below := 2*at + 1
		if below+1 < len(q.all) && q.all[below+1].before(q.all[below]) {
			below++
		}
		if below >= len(q.all) || !q.all[below].before(e) {
			q.put(at, e)
			return
		}
		q.put(at, q.all[below])
		at = below
	}
}

func (q *endQueue) put(at int, e runEnd) {
	q.all[at] = e
	q.position[e.job] = int32(at + 1)
}
