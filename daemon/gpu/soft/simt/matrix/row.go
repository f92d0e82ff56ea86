package matrix

import (
	"math"
)

// addRow adds a row of a times b to a row of sums. Products of types narrower than float64 are
// exact.
func addRow(sum *[columns]float64, left []float64, right *[maxInner][columns]float64) {
	s0, s1, s2, s3, s4, s5, s6, s7 := sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], sum[7]
	for k, x := range left {
		y := &right[k%maxInner]
		s0 += x * y[0]
		s1 += x * y[1]
		s2 += x * y[2]
		s3 += x * y[3]
		s4 += x * y[4]
		s5 += x * y[5]
		s6 += x * y[6]
		s7 += x * y[7]
	}
	*sum = [columns]float64{s0, s1, s2, s3, s4, s5, s6, s7}
}

// fuseRow is addRow for float64: each step is rounded once.
func fuseRow(sum *[columns]float64, left []float64, right *[maxInner][columns]float64) {
	for k, x := range left {
		for i, y := range &right[k%maxInner] {
			sum[i] = math.FMA(x, y, sum[i])
		}
	}
}
