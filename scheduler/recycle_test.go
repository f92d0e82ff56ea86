package scheduler

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// TestRecycle: an engine whose plans are recycled returns the same plans, in the memory of earlier
// ones, and keeps what it remembers of them.
func TestRecycle(t *testing.T) {
	plans := func(recycle bool) (all []Plan, reused int) {
		p := Policies{Order: byService{}, Place: anywhere{}, Preempt: enough{}, Quantum: 4 * s}
		v := prepare(t, machines(5, 4), p, crowd(3, 80))
		var last *Start
		v.after = func(_ time.Duration, p Plan) {
			all = append(all, Plan{slices.Clone(p.Stops), slices.Clone(p.Starts)})
			if len(p.Starts) > 0 {
				if &p.Starts[0] == last {
					reused++
				}
				last = &p.Starts[0]
			}
			if recycle {
				v.e.Recycle(p)
			}
		}
		v.run()
		return all, reused
	}
	want, reused := plans(false)
	if reused > 0 {
		t.Errorf("%d plans are in the memory of others that were not recycled", reused)
	}
	got, reused := plans(true)
	if reused < len(got)/4 {
		t.Errorf("%d of %d plans are in the memory of others", reused, len(got))
	}
	for i := range want {
		if len(got) != len(want) || !slices.Equal(got[i].Stops, want[i].Stops) ||
			!slices.EqualFunc(got[i].Starts, want[i].Starts, func(a, b Start) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("plan %d of %d is %+v, want %+v", i, len(got), got[i], want[i])
		}
	}
}
