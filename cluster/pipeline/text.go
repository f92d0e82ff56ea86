package pipeline

import (
	"fmt"
	"strconv"
	"strings"
)

// Count formats a number with its noun, for messages. The plural ends in s, or
// in es after a hiss.
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Size formats bytes for messages with four significant digits.
func Size(bytes int64) string {
	const step = 1 << 10
	value, unit := float64(bytes), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	for value >= step && unit < len(units)-1 {
		value, unit = value/step, unit+1
	}
	return strconv.FormatFloat(value, 'g', 4, 64) + " " + units[unit]
}
