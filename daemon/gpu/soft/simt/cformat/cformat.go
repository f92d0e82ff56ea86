// Package cformat formats text as C's printf does, from a format string and raw argument words.
//
// It supports the conversions of device code: d i u o x X c s p f F e E g G a A and %%, with flags,
// width, precision and length. Everything else is copied unchanged, as by the device's printf.
package cformat

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// spec is one conversion.
type spec struct {
	flags            string
	width, precision int // -1 where absent
	wide             bool
	verb             byte
}

// Append appends the formatted text to out. next returns the next argument of 4 or 8 bytes, text
// the string at an address.
func Append(out []byte, format string, next func(bytes uint64) uint64, text func(address uint64) string) []byte {
	for i := 0; i < len(format); {
		if format[i] != '%' {
			out = append(out, format[i])
			i++
			continue
		}
		s, n, ok := parse(format[i+1:], next)
		if !ok {
			out = append(out, format[i])
			i++
			continue
		}
		i += 1 + n
		out = s.format(out, next, text)
	}
	return out
}

// parse parses a conversion after its % and returns its length.
func parse(rest string, next func(uint64) uint64) (s spec, n int, ok bool) {
	for n < len(rest) && strings.IndexByte("-+ #0", rest[n]) >= 0 {
		n++
	}
	s.flags = rest[:n]
	s.width, n = parseNumber(rest, n, next)
	if s.width < -1 {
		s.flags, s.width = s.flags+"-", -s.width
	}
	s.precision = -1
	if n < len(rest) && rest[n] == '.' {
		s.precision, n = parseNumber(rest, n+1, next)
		if s.precision == -1 {
			s.precision = 0
		}
	}
	for n < len(rest) && strings.IndexByte("hlLqjzt", rest[n]) >= 0 {
		s.wide = s.wide || rest[n] != 'h'
		n++
	}
	if n >= len(rest) || strings.IndexByte("diouxXcspfFeEgGaA%", rest[n]) < 0 {
		return s, 0, false
	}
	s.verb = rest[n]
	return s, n + 1, true
}

// maxWidth is the maximum width, so that a format cannot allocate unbounded memory.
const maxWidth = 4096

// parseNumber parses a width or precision at n, digits or *. It returns -1 if there is none.
func parseNumber(rest string, n int, next func(uint64) uint64) (value, end int) {
	if n < len(rest) && rest[n] == '*' {
		return max(min(int(int32(next(4))), maxWidth), -maxWidth), n + 1
	}
	start := n
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	if n == start {
		return -1, n
	}
	value, err := strconv.Atoi(rest[start:n])
	if err != nil || value > maxWidth {
		value = maxWidth
	}
	return value, n
}

// format appends one formatted conversion.
func (s *spec) format(out []byte, next func(uint64) uint64, text func(uint64) string) []byte {
	switch s.verb {
	case '%':
		return append(out, '%')
	case 'c':
		return s.pad(out, string([]byte{byte(next(4))}))
	case 's':
		t := text(next(8))
		if s.precision >= 0 && len(t) > s.precision {
			t = t[:s.precision]
		}
		return s.pad(out, t)
	case 'p':
		return s.pad(out, fmt.Sprintf("%#x", next(8)))
	case 'd', 'i', 'u', 'o', 'x', 'X':
		return s.appendInteger(out, next)
	}
	return s.appendFloat(out, math.Float64frombits(next(8)))
}

func (s *spec) has(flag byte) bool { return strings.IndexByte(s.flags, flag) >= 0 }

// appendInteger formats the next argument, which has 4 or 8 bytes, in the verb's base.
func (s *spec) appendInteger(out []byte, next func(uint64) uint64) []byte {
	bytes := uint64(4)
	if s.wide {
		bytes = 8
	}
	v := next(bytes)
	sign := ""
	if s.verb == 'd' || s.verb == 'i' {
		if !s.wide {
			v = uint64(int64(int32(v)))
		}
		if int64(v) < 0 {
			sign, v = "-", -v
		} else {
			sign = s.positiveSign()
		}
	}
	base := map[byte]int{'o': 8, 'x': 16, 'X': 16}[s.verb]
	digits := strconv.FormatUint(v, max(base, 8+2*boolInt(base == 0)))
	if s.precision == 0 && v == 0 {
		digits = ""
	}
	for len(digits) < s.precision {
		digits = "0" + digits
	}
	if s.has('#') && base == 8 && !strings.HasPrefix(digits, "0") {
		digits = "0" + digits
	}
	if s.has('#') && base == 16 && v != 0 {
		sign = "0x"
	}
	if s.verb == 'X' {
		digits, sign = strings.ToUpper(digits), strings.ToUpper(sign)
	}
	return s.padNumber(out, sign, digits, s.precision < 0)
}

// boolInt returns 1 for true and 0 for false.
func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// positiveSign returns the sign of a non-negative number.
func (s *spec) positiveSign() string {
	switch {
	case s.has('+'):
		return "+"
	case s.has(' '):
		return " "
	}
	return ""
}

// appendFloat formats v with its sign. The 0 flag does not apply to infinities and NaN.
func (s *spec) appendFloat(out []byte, v float64) []byte {
	sign := s.positiveSign()
	if math.Signbit(v) {
		sign = "-"
	}
	v = math.Abs(v)
	upper := s.verb < 'a'
	digits := ""
	switch {
	case math.IsInf(v, 0):
		digits = "inf"
	case v != v:
		digits = "nan"
	default:
		digits = s.digits(v)
	}
	if upper {
		digits = strings.ToUpper(digits)
	}
	return s.padNumber(out, sign, digits, v-v == 0)
}

// digits returns the digits of a finite, non-negative number.
func (s *spec) digits(v float64) string {
	precision := s.precision
	verb := s.verb | 0x20
	if precision < 0 && verb != 'a' {
		precision = 6
	}
	switch verb {
	case 'a':
		return hex(v, precision)
	case 'g':
		if s.has('#') {
			return fmt.Sprintf("%#.*g", max(precision, 1), v)
		}
		return strconv.FormatFloat(v, 'g', max(precision, 1), 64)
	}
	text := strconv.FormatFloat(v, verb, precision, 64)
	if s.has('#') && precision == 0 {
		text += "."
	}
	return text
}

// hex implements %a. Go writes at least two exponent digits, C only as many as needed.
func hex(v float64, precision int) string {
	text := strconv.FormatFloat(v, 'x', precision, 64)
	mantissa, exponent, _ := strings.Cut(text, "p")
	e, _ := strconv.Atoi(exponent)
	return fmt.Sprintf("%sp%+d", mantissa, e)
}

// padNumber pads to the width. With the 0 flag it inserts zeroes after the sign.
func (s *spec) padNumber(out []byte, sign, digits string, zeroes bool) []byte {
	if zeroes && s.has('0') && !s.has('-') {
		for len(sign)+len(digits) < s.width {
			digits = "0" + digits
		}
	}
	return s.pad(out, sign+digits)
}

// pad fills up text to the width with blanks: before it or, with the - flag, after it.
func (s *spec) pad(out []byte, text string) []byte {
	fill := strings.Repeat(" ", max(s.width-len(text), 0))
	if s.has('-') {
		return append(append(out, text...), fill...)
	}
	return append(append(out, fill...), text...)
}
