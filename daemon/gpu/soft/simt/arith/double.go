package arith

import (
	"math"

	"github.com/phos-gpu/phos/internal/ptx"
)

// adjust turns a result rounded to nearest into one rounded in mode, given the sign of (exact -
// nearest).
func adjust(nearest float64, errorSign int, mode ptx.Round) float64 {
	if errorSign == 0 || nearest != nearest {
		return nearest
	}
	down := mode == ptx.RM || mode == ptx.RZ && (nearest > 0 || nearest == 0 && errorSign > 0)
	upward := mode == ptx.RP || mode == ptx.RZ && (nearest < 0 || nearest == 0 && errorSign < 0)
	switch {
	case down && errorSign < 0:
		return math.Nextafter(nearest, math.Inf(-1))
	case upward && errorSign > 0:
		return math.Nextafter(nearest, math.Inf(1))
	}
	return nearest
}

// signOf returns -1, 0 or 1; 0 for NaN too.
func signOf(x float64) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

func finite(x float64) bool { return !math.IsInf(x, 0) && x == x }

// directed reports whether mode rounds in a fixed direction.
func directed(mode ptx.Round) bool { return mode == ptx.RZ || mode == ptx.RM || mode == ptx.RP }

// add64 returns a+b rounded in mode.
func add64(a, b float64, mode ptx.Round) float64 {
	sum := a + b
	if !directed(mode) || !finite(a) || !finite(b) {
		return sum
	}
	switch {
	case math.IsInf(sum, 0):
		return adjust(sum, -signOf(sum), mode)
	case sum == 0 && mode == ptx.RM && (math.Signbit(a) || math.Signbit(b)):
		return math.Copysign(0, -1) // an exact zero sum is negative when rounding down, unless both are +0
	}
	return adjust(sum, signOf(twoSum(a, b, sum)), mode)
}

// mul64 returns a*b rounded in mode.
func mul64(a, b float64, mode ptx.Round) float64 {
	product := a * b
	if !directed(mode) || !finite(a) || !finite(b) || a == 0 || b == 0 {
		return product
	}
	if math.IsInf(product, 0) {
		return adjust(product, -signOf(product), mode)
	}
	// Compute the error at a scale where nothing underflows.
	fa, ea := math.Frexp(a)
	fb, eb := math.Frexp(b)
	high := fa * fb
	low := math.FMA(fa, fb, -high)
	scaled := scale(product, -(ea + eb))
	if high != scaled {
		return adjust(signedZero(product, high), signOf(high-scaled), mode)
	}
	return adjust(product, signOf(low), mode)
}

// signedZero gives an underflowed product the sign of the exact product.
func signedZero(x, exact float64) float64 {
	if x == 0 {
		return math.Copysign(0, exact)
	}
	return x
}

// scale is math.Ldexp for exponents that may overflow on the way.
func scale(x float64, exp int) float64 {
	fraction, e := math.Frexp(x)
	return math.Ldexp(fraction, e+exp)
}

// fma64 returns a*b+c, rounded once in mode.
func fma64(a, b, c float64, mode ptx.Round) float64 {
	sum := math.FMA(a, b, c)
	if !directed(mode) || !finite(a) || !finite(b) || !finite(c) {
		return sum
	}
	if a == 0 || b == 0 {
		return add64(a*b, c, mode)
	}
	if math.IsInf(sum, 0) {
		return adjust(sum, -signOf(sum), mode)
	}
	sign := fmaError(a, b, c, sum)
	if sum == 0 && sign == 0 && mode == ptx.RM { // the product is not zero, so the terms cancelled
		return math.Copysign(0, -1)
	}
	return adjust(sum, sign, mode)
}

// fmaError returns the sign of a*b + c - sum, where sum is the float64 nearest to a*b + c.
func fmaError(a, b, c, sum float64) int {
	fa, ea := math.Frexp(a)
	fb, eb := math.Frexp(b)
	high := fa * fb
	low := math.FMA(fa, fb, -high)
	_, ec := math.Frexp(c)
	// The product is less than half a unit of c, so sum is c. At a tie it may be next to c, which
	// cannot happen in practice.
	if c != 0 && ec-(ea+eb) > 200 {
		return exactSign(c-sum, high, 0, 0)
	}
	if c != 0 && ec-(ea+eb) < -300 { // the same with the roles swapped
		scaled := scale(sum, -(ea + eb))
		if sign := exactSign(high, low, -scaled, 0); sign != 0 {
			return sign
		}
		return signOf(c)
	}
	return exactSign(high, low, scale(c, -(ea+eb)), -scale(sum, -(ea+eb)))
}

// exactSign returns the sign of an exact sum of four terms. It distills them until the leading term
// decides.
func exactSign(terms ...float64) int {
	for range len(terms) {
		for i := len(terms) - 1; i > 0; i-- {
			sum := terms[i-1] + terms[i]
			terms[i] = twoSum(terms[i-1], terms[i], sum)
			terms[i-1] = sum
		}
	}
	for _, term := range terms {
		if term != 0 {
			return signOf(term)
		}
	}
	return 0
}

// div64 returns a/b rounded in mode.
func div64(a, b float64, mode ptx.Round) float64 {
	q := a / b
	if !directed(mode) || !finite(a) || !finite(b) || a == 0 || b == 0 {
		return q
	}
	if math.IsInf(q, 0) {
		return adjust(q, -signOf(q), mode)
	}
	fa, ea := math.Frexp(a)
	fb, eb := math.Frexp(b)
	scaled := scale(q, eb-ea)
	sign := signOf(math.FMA(-scaled, fb, fa))
	if fb < 0 {
		sign = -sign
	}
	return adjust(signedZero(q, fa*fb), sign, mode)
}

// sqrt64 returns the square root rounded in mode.
func sqrt64(a float64, mode ptx.Round) float64 {
	s := math.Sqrt(a)
	if !directed(mode) || !finite(s) || s == 0 {
		return s
	}
	fraction, exp := math.Frexp(a)
	if exp&1 != 0 {
		fraction, exp = fraction*2, exp-1
	}
	scaled := scale(s, -exp/2)
	return adjust(s, signOf(math.FMA(-scaled, scaled, fraction)), mode)
}
