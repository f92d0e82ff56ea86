package sim

import (
	"errors"

	"github.com/phos-gpu/phos/scheduler/cluster"
	"github.com/phos-gpu/phos/scheduler/packed"
)

// jobIndex finds jobs by number. Most traces number their jobs one after the other, so that the
// number is the index; nearly all others leave few numbers out, so that a slice suffices.
type jobIndex struct {
	least       cluster.JobID
	consecutive bool    // the job of the number least + i has the index i
	dense       []int32 // by number from least on, the index plus 1; nil if the numbers are sparse
	all         map[cluster.JobID]int32
}

// errSameNumber is returned for two jobs of one number.
var errSameNumber = errors.New("two jobs have the same number")

// newJobIndex returns an index of jobs.
func newJobIndex(jobs *packed.Jobs) (*jobIndex, error) {
	x := &jobIndex{}
	if jobs.Len() == 0 {
		return x, nil
	}
	x.least, x.consecutive = jobs.ID(0), true
	most := x.least
	for i := range jobs.Len() {
		x.consecutive = x.consecutive && jobs.ID(i) == jobs.ID(0)+cluster.JobID(i)
		x.least, most = min(x.least, jobs.ID(i)), max(most, jobs.ID(i))
	}
	if x.consecutive {
		return x, nil
	}
	if span := uint64(most) - uint64(x.least); span < 2*uint64(jobs.Len()) {
		x.dense = make([]int32, span+1)
	} else {
		x.all = make(map[cluster.JobID]int32, jobs.Len())
	}
	for i := range jobs.Len() {
		if !x.add(jobs.ID(i), int32(i)) {
			return nil, errSameNumber
		}
	}
	return x, nil
}

// add adds a job, and reports whether its number is new.
func (x *jobIndex) add(id cluster.JobID, i int32) bool {
	if x.dense != nil {
		at := &x.dense[id-x.least]
		isNew := *at == 0
		*at = i + 1
		return isNew
	}
	_, found := x.all[id]
	x.all[id] = i
	return !found
}

// of returns the index of a job of the trace.
func (x *jobIndex) of(id cluster.JobID) int32 {
	if x.consecutive {
		return int32(id - x.least)
	}
	if x.dense != nil {
		return x.dense[id-x.least] - 1
	}
	return x.all[id]
}
