package pipeline

import "github.com/phos-gpu/phos/internal/words"

// Count formats a number with its noun, for messages.
func Count(n int, noun string) string { return words.CountOf(n, noun) }

// Size formats bytes, for messages.
func Size(bytes int64) string {
	if bytes < 0 {
		return "-" + words.Bytes(uint64(-bytes))
	}
	return words.Bytes(uint64(bytes))
}
