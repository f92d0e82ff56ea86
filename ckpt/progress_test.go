package ckpt

import (
	"slices"
	"testing"
)

// TestProgress: the parts of a phase are summed. A part of another phase than the one that has
// begun is late, or repeats what it said before; it does not begin its phase again.
func TestProgress(t *testing.T) {
	var got []Step
	p := newProgress(func(now Step) { got = append(got, now) })
	p.part(1, Step{"copy", 1, 10})
	p.part(2, Step{"copy", 2, 20})
	p.phase("drain")
	p.part(1, Step{"copy", 10, 10}) // a heartbeat
	p.phase("cut")
	p.part(2, Step{"cut", 5, 6})
	p.phase("write")
	p.part(0, Step{"write", 1, 2})
	p.part(2, Step{"cut", 6, 6})
	p.phase("write") // the next step of the same phase
	p.part(1, Step{"write", 3, 4})
	p.phase("drain") // an attempt after one that failed
	want := []Step{
		{"copy", 1, 10},
		{"copy", 3, 30},
		{"drain", 0, 0},
		{"cut", 0, 0},
		{"cut", 5, 6},
		{"write", 0, 0},
		{"write", 1, 2},
		{"write", 4, 6},
		{"drain", 0, 0},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
