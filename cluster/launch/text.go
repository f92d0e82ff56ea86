package launch

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
)

// text refuses what cannot be shown in one line, and what is too long.
func (c *checker) text(field, value string, most int) {
	switch {
	case len(value) > most:
		c.wrong(field, value, fmt.Sprintf("%d bytes; at most %d are allowed", len(value), most))
	case !utf8.ValidString(value) || strings.ContainsFunc(value, words.Hidden):
		c.wrong(field, value, "want text without control characters and invisible ones")
	}
}

// label refuses what is not a name of small letters, digits and dashes: it becomes part of paths,
// variables and host names.
func (c *checker) label(field, value string) {
	if !isLabel(value) {
		c.wrong(field, value, fmt.Sprintf("want at most %d small letters, digits and -, as train-2", maxLabel))
	}
}

// isLabel reports whether label accepts the text.
func isLabel(text string) bool {
	for i, r := range text {
		inner := i > 0 && i < len(text)-1
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && (r != '-' || !inner) {
			return false
		}
	}
	return text != "" && len(text) <= maxLabel
}

// hostname refuses what is not a host's name: labels, in any case, with dots between them.
func (c *checker) hostname(field, value string) {
	for label := range strings.SplitSeq(value, ".") {
		if !isLabel(strings.ToLower(label)) || len(value) > 253 {
			c.wrong(field, value, "want the name of a host")
			return
		}
	}
}

// between refuses a number that is out of bounds.
func (c *checker) between(field string, value, least, most int) {
	if value < least || value > most {
		c.wrong(field, value, fmt.Sprintf("want a number from %d to %d", least, most))
	}
}

// atMost refuses a list that is too long.
func (c *checker) atMost(field string, count, most int) {
	if count > most {
		c.wrong(field, nil, fmt.Sprintf("has %d entries; at most %d are allowed", count, most))
	}
}
