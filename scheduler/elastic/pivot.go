package elastic

// maxSteepest is the number of pivots that take the steepest column. After them Bland's rule is
// used, which never cycles.
const maxSteepest = 2000

// maximize pivots until no column gains.
func (t *tableau) maximize() {
	for t.pivots = 0; ; t.pivots++ {
		col := t.entering()
		if col < 0 {
			return
		}
		row := t.leaving(col)
		if row < 0 {
			return
		}
		t.pivot(row, col)
	}
}

// entering returns a column that gains, or -1.
func (t *tableau) entering() int {
	last, best := t.a[len(t.basic)], -1
	for col := range t.nonbasic {
		if last[col] <= eps {
			continue
		}
		switch {
		case best < 0:
			best = col
		case t.pivots >= maxSteepest:
			if t.nonbasic[col] < t.nonbasic[best] {
				best = col
			}
		case last[col] > last[best]:
			best = col
		}
	}
	return best
}

// leaving returns the row that limits a column first, or -1; of equal rows, the one with the lowest
// variable.
func (t *tableau) leaving(col int) int {
	right, best, least := len(t.nonbasic), -1, 0.0
	for row := range t.basic {
		if t.a[row][col] <= eps {
			continue
		}
		ratio := t.a[row][right] / t.a[row][col]
		if best < 0 || ratio < least-eps*1e-3 || (ratio <= least && t.basic[row] < t.basic[best]) {
			best, least = row, ratio
		}
	}
	return best
}

// pivot exchanges the variables of a row and a column.
func (t *tableau) pivot(row, col int) {
	p, inverse := t.a[row], 1/t.a[row][col]
	for c := range p {
		p[c] *= inverse
	}
	p[col] = inverse
	for r, other := range t.a {
		factor := other[col]
		if r == row || factor == 0 {
			continue
		}
		for c := range other {
			other[c] -= factor * p[c]
		}
		other[col] = -factor * inverse
	}
	t.basic[row], t.nonbasic[col] = t.nonbasic[col], t.basic[row]
}
