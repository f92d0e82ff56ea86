package humanize

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/phos-gpu/phos/internal/words"
)

// Bytes formats a size with three significant digits.
func Bytes(bytes uint64) string { return words.Bytes(bytes) }

// Count formats a number with its noun, of which many is the plural.
func Count(n int, one, many string) string { return words.Count(n, one, many) }

// Age formats a duration in its two largest units.
func Age(age time.Duration) string {
	age = max(age, 0).Truncate(time.Second)
	days, hours, minutes, seconds := int(age.Hours())/24, int(age.Hours())%24, int(age.Minutes())%60, int(age.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Printable replaces everything in a text that could control a terminal. Use it for texts from
// programs and images.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// Shorten makes a text printable and truncates it; an empty text becomes a dash.
func Shorten(text string, runes int) string {
	text = Printable(text)
	if short := []rune(text); len(short) > runes {
		return string(short[:runes-1]) + "…"
	}
	if text == "" {
		return "-"
	}
	return text
}

// Microseconds formats a duration with about three significant digits.
func Microseconds(count uint64) string {
	duration := time.Duration(min(count, math.MaxInt64/uint64(time.Microsecond))) * time.Microsecond
	switch {
	case duration >= time.Minute:
		return duration.Round(time.Second).String()
	case duration >= time.Second:
		return duration.Round(10 * time.Millisecond).String()
	}
	return duration.Round(10 * time.Microsecond).String()
}

// Pause says what a pause was spent on, by the steps of a checkpoint.
func Pause(microseconds uint64, steps map[string]uint64) string {
	part := func(name string) string { return Microseconds(steps[name]) }
	stopped := steps["quiesce"] + steps["freeze"] + steps["cut"] + steps["hold"]
	resumed := max(microseconds, stopped) - stopped
	held := ""
	if steps["hold"] >= 1000 {
		held = fmt.Sprintf("held %s, ", part("hold"))
	}
	return fmt.Sprintf("calls done %s, frozen %s, saved %s (processes %s, GPU %s, files %s), %sresumed %s",
		part("quiesce"), part("freeze"), part("cut"), part("cut.processes"), part("cut.gpu"), part("cut.files"),
		held, Microseconds(resumed))
}
