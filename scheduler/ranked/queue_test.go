package ranked

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestQueue compares a queue with a sorted slice. With a drift, most jobs are last when they are
// added.
func TestQueue(t *testing.T) {
	for i, drift := range []float64{0, 0, 0.5, 4, 40} {
		draw := rand.New(rand.NewPCG(2, uint64(i)))
		q := Queue[int]{TrackTimes: i == 1}
		comeAndGo(
			draw, drift,
			func(e *entry) { q.Add(e.leaf, e.leaf.Key, int(e.leaf.ID), e.need, e.own) },
			func(e *entry) { q.Remove(e.leaf) },
			func(all []*entry) {
				if q.Size != len(all) {
					t.Fatalf("%d jobs, want %d", q.Size, len(all))
				}
				compareOrder(t, q.Each, all)
				compareFirst(t, &q, draw, all)
			},
		)
	}
}

// compareFirst compares the first job behind a random one that matches a random filter.
func compareFirst(t *testing.T, q *Queue[int], draw *rand.Rand, all []*entry) {
	t.Helper()
	w := MatchAll
	w.Skip = uint64(draw.IntN(16))
	if draw.IntN(2) == 0 {
		w.MaxGPUs = draw.IntN(9)
	}
	if w.Limited = q.TrackTimes && draw.IntN(2) == 0; w.Limited {
		for i := range w.MaxTimes {
			w.MaxTimes[i] = time.Duration(draw.IntN(100))
		}
		for _, e := range all {
			e.longest = time.Duration(draw.Int64N(1 + int64(w.MaxTimes[SizeClass(e.need.MinGPUs)])))
		}
	}
	from, after := 0, (*Key)(nil)
	if len(all) > 0 && draw.IntN(2) == 0 {
		from = draw.IntN(len(all))
		after = &all[from].leaf.Key
		from++
	}
	want := -1
	for _, e := range all[from:] {
		if e.need.Shape&^w.Skip != 0 && e.need.MinGPUs <= w.MaxGPUs && (!w.Limited || e.own.Time <= e.longest) {
			want = int(e.leaf.ID)
			break
		}
	}
	if got, ok := q.First(after, &w); ok != (want >= 0) || ok && (got.Job != want || got.ID != int64(want)) {
		t.Fatalf("filter %+v: got %+v, want job %d", w, got, want)
	}
}
