package elastic

import "math"

// Curve is the time of a step by the number of GPUs, as Optimus fits it: A/n + B + C*n. A is
// divisible work, B is constant work, C is growing communication.
//
// The paper's law for synchronous training (§3.2) has terms for workers and for parameter servers;
// with equally many of both it is this one.
type Curve struct{ A, B, C float64 }

// Seconds returns the time on n GPUs.
func (c Curve) Seconds(n int) float64 { return c.A/float64(n) + c.B + c.C*float64(n) }

// sample is a time on a number of GPUs.
type sample struct {
	gpus    int
	seconds float64
}

// fitCurve returns the curve without negative terms that has the least squared relative error.
// Three terms give eight choices of which may be positive; it solves for each and takes the best
// solution without a negative term.
func fitCurve(samples []sample) Curve {
	best, least := Curve{}, math.Inf(1)
	for choice := 1; choice < 8; choice++ {
		c, ok := solve(samples, choice)
		if !ok {
			continue
		}
		if e := c.squaredError(samples); e < least*(1-1e-9) {
			best, least = c, e
		}
	}
	return best
}

// squaredError returns the sum of the squared relative errors.
func (c Curve) squaredError(samples []sample) float64 {
	sum := 0.0
	for _, s := range samples {
		e := c.Seconds(s.gpus)/s.seconds - 1
		sum += e * e
	}
	return sum
}

// solve is ordinary least squares over the chosen terms; ok is false if there is no solution or a
// negative term.
func solve(samples []sample, choice int) (Curve, bool) {
	var m [3][4]float64 // normal equations, with the right side last
	for i := range m {
		if choice>>i&1 == 0 {
			m[i][i] = 1 // the term is 0
		}
	}
	for _, s := range samples {
		row := [3]float64{1 / float64(s.gpus) / s.seconds, 1 / s.seconds, float64(s.gpus) / s.seconds}
		for i := range row {
			if choice>>i&1 == 0 {
				continue
			}
			for k := range row {
				if choice>>k&1 == 1 {
					m[i][k] += row[i] * row[k]
				}
			}
			m[i][3] += row[i]
		}
	}
	x, ok := eliminate(m)
	return Curve{x[0], x[1], x[2]}, ok && min(x[0], x[1], x[2]) >= 0
}

// eliminate solves three linear equations; ok is false if they are dependent.
func eliminate(m [3][4]float64) (x [3]float64, ok bool) {
	for i := range m {
		pivot := i
		for k := i + 1; k < 3; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[pivot][i]) {
				pivot = k
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-12 {
			return x, false
		}
		for k := range m {
			if k == i {
				continue
			}
			f := m[k][i] / m[i][i]
			for c := i; c < 4; c++ {
				m[k][c] -= f * m[i][c]
			}
		}
	}
	for i := range x {
		x[i] = m[i][3] / m[i][i]
	}
	return x, true
}
