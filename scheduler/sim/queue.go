package sim

import (
	"cmp"
	"time"
)

// ending is when a run would end if nobody stopped it.
type ending struct {
	at       time.Duration
	job, run int32
	fails    bool
}

func (e ending) before(other ending) bool {
	return cmp.Or(cmp.Compare(e.at, other.at), cmp.Compare(e.job, other.job), cmp.Compare(e.run, other.run)) < 0
}

// queue is a heap of endings.
type queue struct{ all []ending }

func (q *queue) len() int      { return len(q.all) }
func (q *queue) first() ending { return q.all[0] }

func (q *queue) push(e ending) {
	q.all = append(q.all, e)
	at := len(q.all) - 1
	for at > 0 {
		above := (at - 1) / 2
		if !q.all[at].before(q.all[above]) {
			return
		}
		q.all[at], q.all[above] = q.all[above], q.all[at]
		at = above
	}
}

func (q *queue) pop() ending {
	top, last := q.all[0], len(q.all)-1
	q.all[0] = q.all[last]
	q.all = q.all[:last]
	for at := 0; ; {
		least := at
		for below := 2*at + 1; below <= 2*at+2 && below < last; below++ {
			if q.all[below].before(q.all[least]) {
				least = below
			}
		}
		if least == at {
			return top
		}
		q.all[at], q.all[least] = q.all[least], q.all[at]
		at = least
	}
}
