package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Count returns a number with its noun, of which many is the plural.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// CountOf is Count for a noun whose plural ends in s, or in es after ch.
func CountOf(n int, noun string) string {
	if strings.HasSuffix(noun, "ch") {
		return Count(n, noun, noun+"es")
	}
	return Count(n, noun, noun+"s")
}

// Bytes returns a size with three significant digits.
func Bytes(bytes uint64) string {
	value, unit := float64(bytes), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 || value == float64(int64(value)) {
		return fmt.Sprintf("%.0f %s", value, units[unit])
	}
	return fmt.Sprintf("%.3g %s", value, units[unit])
}

// MaxValue is how many bytes of a wrong value an error repeats.
const MaxValue = 60

// Clip returns the beginning of a wrong value, for an error: it may come from a file of any size.
func Clip(value string) string { return ClipTo(value, MaxValue) }

// ClipTo is Clip with another bound. No character is cut in its middle.
func ClipTo(value string, most int) string {
	if len(value) <= most {
		return value
	}
	for most > 0 && !utf8.RuneStart(value[most]) {
		most--
	}
	return value[:most] + ellipsis
}

// MaxError is how many characters an error about a file should have at most.
const MaxError = 200

// ellipsis stands for what was cut off.
const ellipsis = "…"

// Quoted returns a value between quotes, for an error: its beginning, if it is long. A character
// that must be escaped counts as long as its escape.
func Quoted(value string) string {
	value = Clip(value) // the loop's time is quadratic in the length
	out := strconv.Quote(value)
	for text := strings.TrimSuffix(value, ellipsis); utf8.RuneCountInString(out) > MaxValue+len(`"…"`) &&
		text != ""; {
		_, last := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-last]
		out = strconv.Quote(text + ellipsis)
	}
	return out
}

// Cut returns the first characters of a text.
func Cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + ellipsis
}

// Tail returns the last characters of a text.
func Tail(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return ellipsis + string(runes[len(runes)-most+1:])
}

// Span returns a length of time in one or two units: 40 s, 3 min 5 s, 2 h, 3 d 4 h. What is less
// than the second unit is cut off.
func Span(d time.Duration) string {
	units := []struct {
		long time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.long {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.long, u.name)
		if i+1 < len(units) && d%u.long >= units[i+1].long {
			text += fmt.Sprintf(" %d %s", d%u.long/units[i+1].long, units[i+1].name)
		}
		return text
	}
	return "0 s"
}

// AppendSeconds appends a time in seconds, exact to the nanosecond and as short as possible.
func AppendSeconds(to []byte, d time.Duration) []byte {
	if d < 0 {
		to, d = append(to, '-'), -d
	}
	to = strconv.AppendInt(to, int64(d/time.Second), 10)
	nanos := int64(d % time.Second)
	if nanos == 0 {
		return to
	}
	var digits [9]byte
	for i := 8; i >= 0; i-- {
		digits[i] = byte('0' + nanos%10)
		nanos /= 10
	}
	end := 9
	for digits[end-1] == '0' {
		end--
	}
	return append(append(to, '.'), digits[:end]...)
}

// Numbers lists numbers, with spaces between.
func Numbers(all []int) string { return strings.Trim(fmt.Sprint(all), "[]") }
