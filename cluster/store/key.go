package store

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadKey means that a key has characters or a form that not every implementation can keep.
var ErrBadKey = errors.New("invalid key")

// MaxKey is the most bytes of a key.
const MaxKey = 512

// CheckKey returns ErrBadKey for what is no key. A key is a path of letters, digits and "-_.:"
// between single slashes, with no "." or ".." in it.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrBadKey, len(key), MaxKey)
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, isNoKeyRune) {
			return fmt.Errorf("%w: %.80q", ErrBadKey, key)
		}
	}
	return nil
}

// CheckPrefix returns ErrBadKey for a text with which no key begins. An empty one begins all keys.
func CheckPrefix(prefix string) error {
	whole := prefix + "x" // if any key begins with the prefix, this is one, or too long by one byte
	if len(prefix) == MaxKey {
		whole = prefix
	}
	return CheckKey(whole)
}

// isNoKeyRune reports whether a rune cannot stand in a part of a key.
func isNoKeyRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_.:", r)
}
