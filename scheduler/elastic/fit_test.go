package elastic

import (
	"math"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*max(1, math.Abs(want)) {
		t.Errorf("%s is %.12g, want %.12g", what, got, want)
	}
}

func TestFitFindsTheCurve(t *testing.T) {
	for _, want := range []Curve{{8, 1, 0.1}, {8, 0, 0.5}, {3, 0, 0}, {5, 2, 0}} {
		var samples []sample
		for n := 1; n <= 32; n *= 2 {
			samples = append(samples, sample{n, want.Seconds(n)})
		}
		got := fitCurve(samples)
		near(t, "A", got.A, want.A)
		near(t, "B", got.B, want.B)
		near(t, "C", got.C, want.C)
	}
}

// TestFitIsTheNearest: no curve on a grid around the solution is nearer to the samples, and no term
// is negative.
func TestFitIsTheNearest(t *testing.T) {
	for _, times := range [][]float64{{1, 0.6, 0.45, 0.5, 0.8}, {2, 2, 2, 1, 1}, {1, 2, 4, 8, 16}, {9, 1, 1, 1, 9}} {
		var samples []sample
		for i, seconds := range times {
			samples = append(samples, sample{1 << i, seconds})
		}
		c := fitCurve(samples)
		if min(c.A, c.B, c.C) < 0 {
			t.Errorf("%v: %+v", times, c)
		}
		for i := range 21 * 21 * 21 {
			move := func(x float64, i int) float64 { return max(0, x+float64(i%21-10)*0.02) }
			if other := (Curve{move(c.A, i), move(c.B, i/21), move(c.C, i/441)}); other.squaredError(
				samples,
			) < c.squaredError(
				samples,
			)-1e-9 {
				t.Fatalf("%v: %+v is nearer than %+v", times, other, c)
			}
		}
	}
}
