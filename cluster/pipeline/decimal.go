package pipeline

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// ParseMilliseconds parses a decimal number of milliseconds, rounded half up to the nanosecond.
// With floating point, nodes could compute different plans if the last bit decides a tie.
func ParseMilliseconds(text string) (time.Duration, error) {
	ns, err := parseScaled(text, 1_000_000)
	return time.Duration(ns), err
}

// parseScaled returns a decimal number multiplied by scale, rounded.
func parseScaled(text string, scale int64) (int64, error) {
	if !isDecimal(text) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	value.Mul(value, new(big.Rat).SetInt64(scale)).Add(value, big.NewRat(1, 2))
	whole := new(big.Int).Div(value.Num(), value.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return whole.Int64(), nil
}

// isDecimal excludes fractions, infinities and exponents that would exhaust memory.
func isDecimal(text string) bool {
	if text == "" || len(text) > 40 || strings.Trim(text, "+-.0123456789eE") != "" {
		return false
	}
	_, exponent, has := strings.Cut(strings.ToLower(text), "e")
	if !has {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n >= -40 && n <= 40
}

// Milliseconds formats nanoseconds as milliseconds, exactly.
func Milliseconds(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	text := fmt.Sprintf("%s%d.%06d", sign, ns/1_000_000, ns%1_000_000)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// ParseSeconds parses a decimal number of seconds.
func ParseSeconds(text string) (time.Duration, error) {
	ns, err := parseScaled(text, int64(time.Second))
	return time.Duration(ns), err
}

// ParseMillionths parses a decimal number as millionths.
func ParseMillionths(text string) (int64, error) { return parseScaled(text, 1_000_000) }

// Seconds formats a time as seconds, exactly.
func Seconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
