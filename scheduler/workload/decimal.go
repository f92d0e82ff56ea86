package workload

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// maxNumberLength bounds the digits of a number.
const maxNumberLength = 400

// maxInt64Digits is the number of digits of the greatest int64. A uint64 holds any number with no
// more digits.
const maxInt64Digits = 19

// Descriptions of expected values, for errors.
const (
	wantSeconds = "seconds, a decimal number from 0 to 9.2e9"
	wantCount   = "a whole number from 1 to 1000000"
	wantNumber  = "a whole number"
	wantID      = "a whole number from 0 to 9223372036854775807"
)

// seconds parses a decimal number of seconds, rounded half up to the nanosecond. A float would be
// inexact for some numbers, and results are compared job by job.
func seconds(text []byte) (time.Duration, bool) {
	ns, ok := decimal(text, 9)
	return time.Duration(ns), ok
}

// decimal parses a number of at least 0, scaled by 10^places and rounded half up.
func decimal(text []byte, places int) (int64, bool) {
	mantissa, exponent := split(text)
	var buffer [48]byte
	digits, point, any := buffer[:0], -1, false
	for _, c := range mantissa {
		switch {
		case c == '.' && point < 0:
			point = len(digits)
			continue
		case c < '0' || c > '9' || len(digits) > maxNumberLength:
			return 0, false
		}
		any = true
		if len(digits) > 0 || c != '0' || point >= 0 {
			digits = append(digits, c)
		}
	}
	if point < 0 {
		point = len(digits)
	}
	if !any {
		return 0, false
	}
	return shift(digits, point+exponent+places)
}

// shift returns the integer of the first digits, rounded by the one behind them, and padded with
// zeros.
func shift(digits []byte, first int) (int64, bool) {
	var value int64
	if first < 0 {
		return 0, true
	}
	for i := range first {
		digit := byte('0')
		if i < len(digits) {
			digit = digits[i]
		} else if value == 0 {
			break
		}
		high, low := bits.Mul64(uint64(value), 10)
		if high > 0 || low > math.MaxInt64-10 {
			return 0, false
		}
		value = int64(low) + int64(digit-'0')
	}
	if first < len(digits) && digits[first] >= '5' {
		value++
	}
	return value, true
}

// split separates the exponent of a number like 1e-05, as Python writes it. An extreme exponent
// makes the number invalid.
func split(text []byte) (mantissa []byte, exponent int) {
	for i, c := range text {
		if c != 'e' && c != 'E' {
			continue
		}
		exponent, err := strconv.Atoi(string(text[i+1:]))
		if err != nil || exponent < -400 || exponent > 400 {
			return nil, 0
		}
		return text[:i], exponent
	}
	return text, 0
}

// whole parses an integer, also in the form "4.0" that data frames write.
func whole(text []byte) (int64, bool) {
	if len(text) > 0 && text[0] == '-' {
		n, ok := whole(text[1:])
		return -n, ok && len(text) > 1 && text[1] != '-'
	}
	for i, c := range text {
		if c == '.' {
			if strings.Trim(string(text[i+1:]), "0") != "" {
				return 0, false
			}
			text = text[:i]
			break
		}
	}
	if len(text) == 0 || len(text) > maxInt64Digits {
		return 0, false
	}
	var n uint64
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return int64(n), n <= math.MaxInt64
}

// appendSeconds appends a duration in seconds, without trailing zeros.
func appendSeconds(to []byte, d time.Duration) []byte {
	to = strconv.AppendInt(to, int64(d/time.Second), 10)
	return appendFraction(to, int64(d%time.Second), 9)
}

// appendFraction appends places decimal digits without trailing zeros.
func appendFraction(to []byte, value int64, places int) []byte {
	if value == 0 {
		return to
	}
	to = append(to, '.')
	for unit := int64(math.Pow10(places - 1)); value > 0; unit /= 10 {
		to = append(to, byte('0'+value/unit))
		value %= unit
	}
	return to
}
