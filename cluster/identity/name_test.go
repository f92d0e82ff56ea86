package identity

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		what  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{
			"node", CheckNodeName,
			[]string{"a", "gpu-3", "gpu-3.example.org", "0", "10.0.0.1", strings.Repeat("a", 64)},
			[]string{
				"", "-", "a-", "-a", "a..b", ".", "a.", ".a", "A", "gpu_1", "a/b", "../a", "a b", "a\x00", "ä", "a\n", "a:1",
				strings.Repeat("a", 65),
			},
		},
		{
			"account", CheckAccountName,
			[]string{"root", "alice", "a.b-c_d", "svc$", "alice@example.org", "Alice", "7up", "_x"},
			[]string{"", "0", "1000", "-r", "a b", "a:b", "a/b", "a\n", "ä", "a\\b", "a*", strings.Repeat("a", 65)},
		},
		{
			"cluster", func(text string) error { return ClusterID(text).Check() },
			[]string{"abcdefghijkl2345", strings.Repeat("7", 16)},
			[]string{"", "abcdefghijkl234", "abcdefghijkl23456", "Abcdefghijkl2345", "abcdefghijkl2340", "abcdefghijkl234\n"},
		},
	} {
		for _, text := range test.good {
			if err := test.check(text); err != nil {
				t.Errorf("%s %q: %v", test.what, text, err)
			}
		}
		for _, text := range test.bad {
			if err := test.check(text); !errors.Is(err, ErrBadName) || len(err.Error()) > 200 {
				t.Errorf("%s %q: %v, want ErrBadName", test.what, text, err)
			}
		}
	}
}

func TestNewClusterID(t *testing.T) {
	made := map[ClusterID]bool{}
	for range 100 {
		id, err := NewClusterID(rand.Reader)
		if err != nil || id.Check() != nil || made[id] {
			t.Fatalf("%q, %v", id, err)
		}
		made[id] = true
	}
	if id, err := NewClusterID(bytes.NewReader(make([]byte, 9))); !errors.Is(err, io.ErrUnexpectedEOF) || id != "" {
		t.Errorf("without randomness: %q, %v", id, err)
	}
	if id, err := NewClusterID(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) || id != "" {
		t.Errorf("without randomness: %q, %v", id, err)
	}
}

const cluster ClusterID = "abcdefghijkl2345"

func TestParseURI(t *testing.T) {
	for _, s := range []Subject{{cluster, Node, "gpu-3.example.org"}, {cluster, Controller, "c1"}} {
		parsed, err := url.Parse(s.String())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseURI(parsed); err != nil || got != s {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, text := range []string{
		"", "phos:", "phos://", "phos://abcdefghijkl2345", "phos://abcdefghijkl2345/node", "phos://abcdefghijkl2345/node/",
		"phos://abcdefghijkl2345/node/a/b", "phos://abcdefghijkl2345//node/a", "phos://abcdefghijkl2345/node/../controller/a",
		"phos://abcdefghijkl2345/user/a", "phos://abcdefghijkl2345/Node/a", "phos://abcdefghijkl2345/node/A",
		"phos://abcdefghijkl2345/n%6fde/a", "phos://abcdefghijkl2345/node/a?b", "phos://abcdefghijkl2345/node/a#b",
		"phos://abcdefghijkl2345/node/a?", "phos://x@abcdefghijkl2345/node/a", "phos://abcdefghijkl2345:1/node/a",
		"phos://abcdefghijkl234/node/a", "https://abcdefghijkl2345/node/a", "spiffe://abcdefghijkl2345/node/a",
		"phos:abcdefghijkl2345/node/a", "//abcdefghijkl2345/node/a", "phos://abcdefghijkl2345/node/a%2fb",
	} {
		parsed, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := ParseURI(parsed); !errors.Is(err, ErrBadSubject) {
			t.Errorf("%q: %v, %v, want ErrBadSubject", text, s, err)
		}
	}
}

func TestFingerprintText(t *testing.T) {
	f := Fingerprint{0: 1, 31: 0xff}
	text, err := f.MarshalText()
	if want := "01" + strings.Repeat("00", 30) + "ff"; err != nil || string(text) != want {
		t.Fatalf("%s, %v, want %s", text, err, want)
	}
	var got Fingerprint
	if err := got.UnmarshalText(text); err != nil || got != f {
		t.Errorf("%v, %v", got, err)
	}
	good := string(text)
	for _, bad := range []string{"", good[:63], good + "0", good + "00", strings.Repeat("g", 64), " " + good[1:]} {
		if err := got.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is a fingerprint", bad)
		}
	}
}

// FuzzParseURI checks that there is one text for each identity.
func FuzzParseURI(f *testing.F) {
	f.Add("phos://abcdefghijkl2345/node/gpu-3.example.org")
	f.Add("phos://abcdefghijkl2345/controller/c%31")
	f.Add("phos://x@abcdefghijkl2345:1/node/a?b#c")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := url.Parse(text)
		if err != nil {
			return
		}
		if s, err := ParseURI(parsed); err == nil && s.String() != parsed.String() {
			t.Fatalf("%q is %q", text, s)
		}
	})
}
