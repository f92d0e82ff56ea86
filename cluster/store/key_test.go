package store

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestCheckKey(t *testing.T) {
	for key, want := range map[string]bool{
		"nodes/gpu-01.rack:3/boot_id": true, "a": true, "A/0": true, ".": true,
		strings.Repeat("k", MaxKey): true, strings.Repeat("k", MaxKey+1): false,
		"": false, "/": false, "/a": false, "a/": false, "a//b": false, "a b": false, "a\x00b": false,
		"ä": false, "a\xff": false, "a@b": false, "a\n": false,
	} {
		if err := CheckKey(key); (err == nil) != want || err != nil && !errors.Is(err, ErrKey) {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	for prefix, want := range map[string]bool{"": true, "a/": true, "a": true, "/": false, "a//": false, "*": false} {
		if err := CheckPrefix(prefix); (err == nil) != want {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// keys is the same rule as CheckKey, as a regular expression.
var keys = regexp.MustCompile(`\A[a-zA-Z0-9_.:-]+(/[a-zA-Z0-9_.:-]+)*\z`)

func FuzzCheckKey(f *testing.F) {
	for _, seed := range []string{"a/b", "/", "a//b", "a/", "\x00", "\xff", "é", strings.Repeat("a/", 300) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		err := CheckKey(key)
		if want := keys.MatchString(key) && len(key) <= MaxKey; (err == nil) != want {
			t.Errorf("%q: %v, want %v", key, err, want)
		}
		if err != nil && len(err.Error()) > 600 {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		if err == nil && CheckPrefix(key+"/") != nil && len(key) < MaxKey {
			t.Errorf("%q is a key, but its directory no prefix", key)
		}
	})
}
