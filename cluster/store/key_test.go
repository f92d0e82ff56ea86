package store

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	for _, key := range []string{"a", "launches/l-7", "nodes/gpu1.example.org", "a/b/c_d:1", strings.Repeat("x", 512)} {
		if err := CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{
		"", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a b", "a\x00", "ä", "a\n", "a\\b", strings.Repeat("x", 513),
	} {
		if err := CheckKey(key); !errors.Is(err, ErrBadKey) {
			t.Errorf("%q: %v, want ErrBadKey", key, err)
		}
	}
}
