package meeting

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Number names a cut.
type Number struct {
	Number int
	// Stops means that the cut ends the processes.
	Stops bool
}

// Arrival is a part at a point.
type Arrival struct {
	// Step counts the arrivals of the part.
	Step  int
	Point string
	// Busy is why it has to try again; empty: it can go on.
	Busy string
}

// Points of a layer above, package ckpt: parts that run on go on after PointCut; those that end
// wait at PointComplete.
const (
	PointCut      = "cut"
	PointComplete = "complete"
)

// Verdict is what parts do next, after a step.
type Verdict struct {
	Step  int
	Again bool
	// Failed is why there is no cut; nil: it goes on.
	Failed error
}

// ErrApart means that parts of a cut are not at the same point. A new cut may succeed.
var ErrApart = errors.New("the replicas are not at the same point of the cut")

// Meeting is one cut, while its parts wait for each other.
type Meeting struct {
	Number
	// Parts are the replicas that are saved.
	Parts []int
	// last is the last verdict for all.
	last  Verdict
	there map[int]Arrival
	// complete means that all its images are there.
	complete bool
}

// New begins a cut.
func New(number Number, parts []int) *Meeting {
	return &Meeting{Number: number, Parts: parts, there: map[int]Arrival{}}
}

// Arrive notes that a part waits. It returns the verdict, and for which parts, once there is one.
func (m *Meeting) Arrive(part int, now Arrival) (v Verdict, tell []int) {
	switch {
	case m.last.Failed != nil:
		return Verdict{now.Step, false, m.last.Failed}, []int{part}
	case !slices.Contains(m.Parts, part):
		return Verdict{now.Step, false, fmt.Errorf("%w: replica %d is not among them", ErrApart, part)}, []int{part}
	case now.Step == m.last.Step:
		return m.last, []int{part} // it has not heard of it
	}
	m.there[part] = now
	if len(m.there) < len(m.Parts) {
		return Verdict{}, nil
	}
	v = Verdict{Step: now.Step}
	for _, other := range m.there {
		if other.Step != now.Step || other.Point != now.Point {
			return m.Fail(ErrApart)
		}
		v.Again = v.Again || other.Busy != ""
	}
	m.last = v
	clear(m.there)
	return v, m.Parts
}

// Fail ends the cut. It returns what is told to the parts that wait; others are told once they
// arrive.
func (m *Meeting) Fail(why error) (v Verdict, tell []int) {
	if m.last.Failed == nil {
		m.last.Failed = why
	}
	tell = slices.Sorted(maps.Keys(m.there))
	clear(m.there)
	return m.last, tell
}

// Failed says why there is no cut; nil: there may be one.
func (m *Meeting) Failed() error { return m.last.Failed }

// Complete ends the cut: all its images are there.
func (m *Meeting) Complete() { m.complete = true }

// Open reports whether the cut has neither failed nor is complete.
func (m *Meeting) Open() bool { return m.last.Failed == nil && !m.complete }

// Passed notes that some part has gone on after a point. It was told so by an earlier leader, and
// those that still wait there go on, too. If any waits elsewhere, there is no cut.
func (m *Meeting) Passed(point string) (v Verdict, tell []int) {
	for _, now := range m.there {
		if now.Point != point {
			return m.Fail(ErrApart)
		}
		v.Step = now.Step
	}
	tell = slices.Sorted(maps.Keys(m.there))
	clear(m.there)
	return v, tell
}
