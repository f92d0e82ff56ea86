package store

import (
	"errors"
	"regexp"
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

func TestCheckPrefix(t *testing.T) {
	for prefix, want := range map[string]bool{
		"": true, "a": true, "a/": true, "a/.": true, "a/..": true, "a/./": false, "/": false, "a//": false, "*": false,
		strings.Repeat("x", 512): true, strings.Repeat("x", 513): false, strings.Repeat("x", 511) + "/": false,
	} {
		if err := CheckPrefix(prefix); (err == nil) != want || err != nil && !errors.Is(err, ErrBadKey) {
			t.Errorf("%.20q of %d bytes: %v", prefix, len(prefix), err)
		}
	}
}

// keys is the rule of CheckKey as a regular expression, but for parts that are dots alone.
var keys = regexp.MustCompile(`\A[a-zA-Z0-9_.:-]+(/[a-zA-Z0-9_.:-]+)*\z`)

// dots matches a part that is dots alone.
var dots = regexp.MustCompile(`(\A|/)\.\.?(/|\z)`)

func FuzzCheckKey(f *testing.F) {
	for _, seed := range []string{"a/b", "/", "a//b", "a/", "./a", "a/..", "...", "\x00", "\xff", "é", strings.Repeat("a/", 300) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := CheckKey(key)
		if want := keys.MatchString(key) && !dots.MatchString(key) && len(key) <= MaxKey; (err == nil) != want {
			t.Errorf("%q: %v, want %v", key, err, want)
		}
		if err != nil {
			if len(err.Error()) > 600 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		for i := range len(key) + 1 {
			if err := CheckPrefix(key[:i]); err != nil {
				t.Errorf("%q begins with %q: %v", key, key[:i], err)
			}
		}
	})
}
