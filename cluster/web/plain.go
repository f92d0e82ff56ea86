package web

import (
	"strings"
	"unicode/utf8"

	"github.com/phos-gpu/phos/internal/words"
)

// plain returns a text of a user without what could change how the text beside it looks: sequences
// for terminals, and hidden characters, as marks that turn the direction of writing. A line that a
// program has overwritten, as progress bars do, is what was written last. Bytes that are no UTF-8
// become U+FFFD.
func plain(text string) string {
	text = strings.TrimSuffix(text, "\r")
	if at := strings.LastIndexByte(text, '\r'); at >= 0 {
		text = text[at+1:]
	}
	if isPlain(text) {
		return text
	}
	var out strings.Builder
	for text != "" {
		if skipped := sequence(text); skipped > 0 {
			text = text[skipped:]
			continue
		}
		r, width := utf8.DecodeRuneInString(text)
		text = text[width:]
		out.WriteString(visible(r))
	}
	return out.String()
}

// isPlain reports whether nothing is to be done for a text, as for most.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// visible returns what is shown for a character.
func visible(r rune) string {
	switch {
	case r == '\t' || r == '\n':
		return string(r)
	case r < ' ':
		return string('\u2400' + r) // its picture
	case r == 0x7f:
		return "\u2421"
	case words.Hidden(r):
		return "\ufffd"
	}
	return string(r)
}

const escape = '\x1b'

// sequence returns the length of the sequence for terminals that a text begins with; 0: none.
func sequence(text string) int {
	if len(text) < 2 || text[0] != escape {
		return 0
	}
	switch text[1] {
	case '[':
		return parameters(text)
	case ']', 'P', 'X', '^', '_':
		return command(text)
	}
	end := 1
	for end < len(text) && text[end] >= ' ' && text[end] < '0' {
		end++
	}
	return min(end+1, len(text))
}

// parameters returns the length of ESC [ with its parameters and the letter that ends it.
func parameters(text string) int {
	for i := 2; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '?' {
			if c >= '@' && c <= '~' {
				return i + 1
			}
			return i
		}
	}
	return len(text)
}

// command returns the length of a text for the terminal itself, as its title, up to BEL or ESC \.
func command(text string) int {
	for i := 2; i < len(text); i++ {
		if text[i] == '\a' {
			return i + 1
		}
		if text[i] == escape {
			if strings.HasPrefix(text[i+1:], `\`) {
				return i + 2
			}
			return i
		}
	}
	return len(text)
}
