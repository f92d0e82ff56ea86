package ethernet

import "time"

// waiting is a frame on its way.
type waiting struct {
	due    time.Time
	number uint64 // orders frames that are due at the same time
	frame  []byte
}

// queue is a heap of frames, the next one to deliver first.
type queue []waiting

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due.Equal(q[j].due) {
		return q[i].number < q[j].number
	}
	return q[i].due.Before(q[j].due)
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is for package container/heap.
func (q *queue) Push(each any) { *q = append(*q, each.(waiting)) }

// Pop is for package container/heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	popped := (*q)[last]
	(*q)[last] = waiting{}
	*q = (*q)[:last]
	return popped
}
