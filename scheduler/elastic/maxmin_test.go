package elastic

import (
	"math"
	"math/rand/v2"
	"testing"
)

// corners solves a program by trying every corner: each choice of as many rows (or x = 0) as there
// are variables, taken as equalities.
func corners(p *program) (best float64, found bool) {
	n := len(p.gain)
	rows, limits := append([][]float64{}, p.rows...), append([]float64{}, p.limit...)
	for i := range n {
		axis := make([]float64, n)
		axis[i] = -1
		rows, limits = append(rows, axis), append(limits, 0)
	}
	best = math.Inf(-1)
	chosen := make([]int, 0, n)
	var choose func(from int)
	choose = func(from int) {
		if len(chosen) == n {
			x, ok := equations(rows, limits, chosen)
			if ok && keeps(rows, limits, x) {
				best, found = max(best, dot(p.gain, x)), true
			}
			return
		}
		for i := from; i < len(rows); i++ {
			chosen = append(chosen, i)
			choose(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	choose(0)
	return best, found
}

func keeps(rows [][]float64, limits, x []float64) bool {
	for i, row := range rows {
		if dot(row, x) > limits[i]+1e-7 {
			return false
		}
	}
	return true
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func equations(rows [][]float64, limits []float64, chosen []int) ([]float64, bool) {
	n := len(chosen)
	m := make([][]float64, n)
	for i, row := range chosen {
		m[i] = append(append([]float64{}, rows[row]...), limits[row])
	}
	for i := range m {
		pivot := i
		for k := i; k < n; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[pivot][i]) {
				pivot = k
			}
		}
		if m[i], m[pivot] = m[pivot], m[i]; math.Abs(m[i][i]) < 1e-9 {
			return nil, false
		}
		for k := range m {
			if k != i {
				f := m[k][i] / m[i][i]
				for c := i; c <= n; c++ {
					m[k][c] -= f * m[i][c]
				}
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = m[i][n] / m[i][i]
	}
	return x, true
}

func TestSimplexAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	solved, impossible := 0, 0
	for trial := range 600 {
		n := 1 + random.IntN(4)
		p := &program{gain: make([]float64, n)}
		for i := range n {
			p.gain[i] = float64(random.IntN(9) - 3)
			ceiling := make([]float64, n) // makes it bounded
			ceiling[i] = 1
			p.rows, p.limit = append(p.rows, ceiling), append(p.limit, float64(1+random.IntN(4)))
		}
		for range random.IntN(5) {
			row := make([]float64, n)
			for i := range row {
				row[i] = float64(random.IntN(7) - 3) // many zeros and equal numbers: degenerate corners
			}
			p.rows, p.limit = append(p.rows, row), append(p.limit, float64(random.IntN(7)-3))
		}
		want, possible := corners(p)
		x, price, ok := p.solve()
		if ok != possible {
			t.Fatalf("trial %d: solved %v, there is a solution: %v\n%+v", trial, ok, possible, p)
		}
		if !ok {
			impossible++
			continue
		}
		solved++
		if got := dot(p.gain, x); math.Abs(got-want) > 1e-7 || !keeps(p.rows, p.limit, x) {
			t.Fatalf("trial %d: %v comes to %g, a corner to %g\n%+v", trial, x, got, want, p)
		}
		if worth := dot(price, p.limit); math.Abs(worth-want) > 1e-7 {
			t.Fatalf("trial %d: the prices %v come to %g, not to %g\n%+v", trial, price, worth, want, p)
		}
	}
	if solved < 100 || impossible < 50 {
		t.Errorf("%d were solved, %d had no solution: too few", solved, impossible)
	}
}

// worths returns each group's throughput relative to an equal share.
func worths(groups []group, capacity []float64, x [][]float64) []float64 {
	l := newWaterfill(groups, capacity)
	out := make([]float64, len(groups))
	for g := range groups {
		out[g] = dot(l.worth[g], x[g])
	}
	return out
}

// more returns the most that one group could have without loss for groups that have no more than
// it, by trying every corner.
func more(groups []group, capacity []float64, has []float64, g int) (float64, bool) {
	l := newWaterfill(groups, capacity)
	p := l.program()
	out := &program{gain: make([]float64, l.variables)}
	for t, i := range l.variable[g] {
		if i >= 0 {
			out.gain[i] = l.worth[g][t]
		}
	}
	for row := range p.rows {
		limit := p.limit[row]
		if row < len(groups) {
			if row == g || has[row] > has[g]+1e-6 {
				continue
			}
			limit = -has[row] + 1e-7
		}
		out.rows, out.limit = append(out.rows, p.rows[row][:l.variables]), append(out.limit, limit)
	}
	return corners(out)
}

func TestMaxMinAgainstAllCorners(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for trial := range 60 {
		capacity := []float64{float64(1 + random.IntN(6)), float64(1 + random.IntN(6))}
		var groups []group
		for range 1 + random.IntN(3) {
			gpus := float64(1 + random.IntN(2))
			groups = append(
				groups,
				group{
					float64(1 + random.IntN(3)),
					gpus,
					[]float64{float64(1 + random.IntN(9)), float64(random.IntN(9))},
					[]float64{0, 1, 2, 0.5}[random.IntN(4)],
				},
			)
		}
		x := maxmin(groups, capacity)
		has := worths(groups, capacity, x)
		for k, gpus := range capacity {
			used := 0.0
			for g := range groups {
				used += groups[g].jobs * groups[g].gpus * x[g][k]
			}
			if used > gpus+1e-6 {
				t.Fatalf("trial %d: %g GPUs of a type of %g", trial, used, gpus)
			}
		}
		for g := range groups {
			if sum := x[g][0] + x[g][1]; sum > 1+1e-6 || min(x[g][0], x[g][1]) < 0 {
				t.Fatalf("trial %d: a job has %v of its time", trial, x[g])
			}
			if could, found := more(groups, capacity, has, g); !found || could > has[g]+1e-5 {
				t.Fatalf(
					"trial %d: group %d has %g and could have %g (%v)\n%+v of %v: %v",
					trial,
					g,
					has[g],
					could,
					found,
					groups,
					capacity,
					has,
				)
			}
		}
	}
}

// TestMaxMinOfThePaper is the example of the paper's §4.1: one V100, one K80, three jobs.
func TestMaxMinOfThePaper(t *testing.T) {
	groups := []group{{1, 1, []float64{40, 10}, 0}, {1, 1, []float64{12, 4}, 0}, {1, 1, []float64{100, 50}, 0}}
	capacity := []float64{1, 1}
	x := maxmin(groups, capacity)
	want := [][]float64{{0.45, 0}, {0.45, 0.09}, {0.09, 0.91}}
	for g := range want {
		for k := range want[g] {
			if math.Abs(x[g][k]-want[g][k]) > 0.006 {
				t.Errorf("the shares are %.3v, in the paper %v", x, want)
			}
		}
	}
	// Each job has some 8 % more than with a third of each.
	for g, has := range worths(groups, capacity, x) {
		equal := dot(groups[g].rate, []float64{1.0 / 3, 1.0 / 3})
		if gain := dot(groups[g].rate, x[g]) / equal; gain < 1.07 || gain > 1.10 {
			t.Errorf("job %d has %.3f of an equal share (%g)", g, gain, has)
		}
	}
}

// TestMaxMinGoesOnAfterTheFirstLevel: what a group cannot use goes to the others: the second level.
func TestMaxMinGoesOnAfterTheFirstLevel(t *testing.T) {
	// Of four K80, the first job can use one; the second, of two GPUs, two; one H100 suits only the
	// third.
	groups := []group{{1, 1, []float64{1, 0}, 0}, {1, 2, []float64{1, 0}, 0}, {1, 1, []float64{0, 5}, 0}}
	x := maxmin(groups, []float64{4, 1})
	for g, want := range [][]float64{{1, 0}, {1, 0}, {0, 1}} {
		if math.Abs(x[g][0]-want[0])+math.Abs(x[g][1]-want[1]) > 1e-6 {
			t.Errorf("group %d has %v, want %v", g, x[g], want)
		}
	}
}

func TestMaxMinOfNothing(t *testing.T) {
	if x := maxmin(nil, []float64{4}); len(x) != 0 {
		t.Error(x)
	}
	x := maxmin([]group{{1, 8, []float64{1}, 0}, {2, 1, []float64{0}, 0}}, []float64{4})
	if x[0][0] != 0 || x[1][0] != 0 {
		t.Errorf("jobs that fit nowhere have %v", x)
	}
}
