package sim

import (
	"encoding/binary"
	"iter"
	"time"

	"github.com/phos-gpu/phos/scheduler/packed"
)

// Sample is the state of the cluster from a time on.
type Sample struct {
	At            time.Duration
	Running       int // jobs
	Waiting, Held int // admitted jobs without GPUs, and jobs not admitted yet
	Demand        int // GPUs that admitted jobs ask for, running ones included
	BusyMilli     int64
	Capacity      int // GPUs on nodes that are up
}

// Timeline are samples in their order. They are packed: each but the last as its difference from
// the one before, in some 13 bytes.
type Timeline struct {
	rows   []byte
	packed int    // how many samples are in rows
	before Sample // the last of them
	last   Sample
	n      int
}

// TimelineOf returns the timeline of samples.
func TimelineOf(samples ...Sample) Timeline {
	var t Timeline
	for _, m := range samples {
		t.add(m)
	}
	return t
}

// Len returns the number of samples.
func (t *Timeline) Len() int { return t.n }

// Last returns the last sample; the zero value if there is none.
func (t *Timeline) Last() Sample { return t.last }

// All returns the samples.
func (t *Timeline) All() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		rows, m := packed.NewReader(t.rows), Sample{}
		for range t.packed {
			m.At += rows.Time()
			for _, value := range [...]*int{&m.Running, &m.Waiting, &m.Held, &m.Demand, &m.Capacity} {
				*value += int(rows.Int())
			}
			m.BusyMilli += rows.Int()
			if !yield(m) {
				return
			}
		}
		if t.n > 0 {
			yield(t.last)
		}
	}
}

// add adds a sample at the end.
func (t *Timeline) add(m Sample) {
	if t.n > 0 {
		t.pack()
	}
	t.last = m
	t.n++
}

// pack appends the last sample to the rows.
func (t *Timeline) pack() {
	m, b := &t.last, &t.before
	t.rows = packed.AppendTime(t.rows, m.At-b.At)
	for _, change := range [...]int{
		m.Running - b.Running, m.Waiting - b.Waiting, m.Held - b.Held, m.Demand - b.Demand, m.Capacity - b.Capacity,
	} {
		t.rows = binary.AppendVarint(t.rows, int64(change))
	}
	t.rows = binary.AppendVarint(t.rows, m.BusyMilli-b.BusyMilli)
	t.before = t.last
	t.packed++
}

// thin drops every second sample.
func (t *Timeline) thin() {
	var kept Timeline
	i := 0
	for m := range t.All() {
		if i%2 == 0 {
			kept.add(m)
		}
		i++
	}
	*t = kept
}
