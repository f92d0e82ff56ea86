package elastic

import "math"

// program is a linear program: maximize the sum of gain[i]*x[i], with x not negative and each
// rows[k]·x at most limit[k].
type program struct {
	gain  []float64
	rows  [][]float64
	limit []float64

	memory []float64 // of rows that are not made yet
}

// newRow returns a row of zeros.
func (p *program) newRow() []float64 {
	n := len(p.gain)
	row := p.memory[:n:n]
	p.memory = p.memory[n:]
	return row
}

// eps is what counts as 0. The programs here are scaled so that relevant values are around 1.
const eps = 1e-9

// tableau is a program being solved: its basic variables expressed by the others (Cormen et al.,
// Introduction to Algorithms, ch. 29).
type tableau struct {
	a        [][]float64 // rows, then the objective; the last column is the right side
	basic    []int       // variable of each row
	nonbasic []int       // variable of each column
	pivots   int
}

// solve returns a solution and the price of each row: the gain if its limit were greater by one. ok
// is false if the limits contradict each other. The gain of the programs here is always bounded.
func (p *program) solve() (x, price []float64, ok bool) {
	t := p.tableau()
	if !t.feasible() {
		return nil, nil, false
	}
	t.objective(p.gain)
	t.maximize()
	n, m := len(p.gain), len(p.rows)
	x, price = make([]float64, n), make([]float64, m)
	for row, v := range t.basic {
		if v < n {
			x[v] = max(0, t.a[row][len(t.nonbasic)])
		}
	}
	for col, v := range t.nonbasic {
		if v >= n && v < n+m {
			price[v-n] = max(0, -t.a[m][col])
		}
	}
	return x, price, true
}

// tableau begins with the slacks as basic variables, and an artificial variable, the last column,
// in every row.
func (p *program) tableau() *tableau {
	n, m := len(p.gain), len(p.rows)
	t := &tableau{a: make([][]float64, m+1), basic: make([]int, 0, m), nonbasic: make([]int, 0, n+1)}
	memory := make([]float64, (m+1)*(n+2))
	for row := range t.a {
		t.a[row] = memory[row*(n+2):][: n+2 : n+2]
	}
	for row := range p.rows {
		copy(t.a[row], p.rows[row])
		t.a[row][n] = -1
		t.a[row][n+1] = p.limit[row]
		t.basic = append(t.basic, n+row)
	}
	for col := range n {
		t.nonbasic = append(t.nonbasic, col)
	}
	t.nonbasic = append(t.nonbasic, n+m)
	return t
}

// feasible makes every right side non-negative, if possible, and drops the artificial variable.
func (t *tableau) feasible() bool {
	m, right := len(t.basic), len(t.nonbasic)
	lowest := 0
	for row := range m {
		if t.a[row][right] < t.a[lowest][right] {
			lowest = row
		}
	}
	artificial := t.nonbasic[right-1]
	if m > 0 && t.a[lowest][right] < 0 {
		t.a[m][right-1] = -1
		t.pivot(lowest, right-1)
		t.maximize()
		if -t.a[m][right] < -eps {
			return false
		}
		for row, v := range t.basic {
			if v == artificial {
				t.pivot(row, t.largestColumn(row))
			}
		}
	}
	for col, v := range t.nonbasic {
		if v == artificial {
			t.dropColumn(col)
			break
		}
	}
	return true
}

// largestColumn returns the column with the largest coefficient of a row.
func (t *tableau) largestColumn(row int) int {
	best := 0
	for col := range t.nonbasic {
		if math.Abs(t.a[row][col]) > math.Abs(t.a[row][best]) {
			best = col
		}
	}
	return best
}

// dropColumn removes a nonbasic variable.
func (t *tableau) dropColumn(col int) {
	for row := range t.a {
		t.a[row] = append(t.a[row][:col], t.a[row][col+1:]...)
	}
	t.nonbasic = append(t.nonbasic[:col], t.nonbasic[col+1:]...)
}

// objective expresses the gain by the variables that are not basic.
func (t *tableau) objective(gain []float64) {
	last := t.a[len(t.basic)]
	clear(last)
	for col, v := range t.nonbasic {
		if v < len(gain) {
			last[col] += gain[v]
		}
	}
	for row, v := range t.basic {
		if v < len(gain) && gain[v] != 0 {
			for col := range last {
				last[col] -= gain[v] * t.a[row][col]
			}
		}
	}
}
