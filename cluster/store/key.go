package store

import (
	"fmt"
	"strings"
)

// MaxKey is the most bytes of a key.
const MaxKey = 512

// CheckKey returns ErrKey if a text is no key: one or more names with slashes between them. A name
// has letters of ASCII, digits, and "-_.:".
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: empty", ErrKey)
	}
	if strings.HasSuffix(key, "/") {
		return fmt.Errorf("%w: ends with a slash: %.80q", ErrKey, key)
	}
	return CheckPrefix(key)
}

// CheckPrefix returns ErrKey if no key begins with a text.
func CheckPrefix(prefix string) error {
	switch {
	case len(prefix) > MaxKey:
		return fmt.Errorf("%w: %d bytes of at most %d", ErrKey, len(prefix), MaxKey)
	case strings.HasPrefix(prefix, "/"), strings.Contains(prefix, "//"):
		return fmt.Errorf("%w: an empty name in %.80q", ErrKey, prefix)
	}
	if i := strings.IndexFunc(prefix, foreign); i >= 0 {
		return fmt.Errorf("%w: byte %d of %.80q is no letter, digit, or one of \"-_.:/\"", ErrKey, i, prefix)
	}
	return nil
}

// foreign reports whether a rune is in no key.
func foreign(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	return !letter && (r < '0' || r > '9') && !strings.ContainsRune("-_.:/", r)
}
