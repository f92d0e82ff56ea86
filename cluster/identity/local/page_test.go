package local

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckPage(t *testing.T) {
	for _, good := range [][2]string{
		{"localhost:7443", ""},
		{"127.0.0.1:7443", "http://127.0.0.1:7443"},
		{"[::1]:7443", "http://[::1]:7443"},
		{"localhost", "http://localhost"},
		{"127.0.0.1", ""},
		{"[::1]", "http://[::1]"},
	} {
		if err := CheckPage(good[0], good[1]); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range [][2]string{
		// A name of the attacker's that resolves to loopback.
		{"attacker.example", ""},
		{"attacker.example:7443", "http://attacker.example:7443"},
		{"localhost.attacker.example:7443", ""},
		{"127.0.0.1.attacker.example", ""},
		{"evil.localhost:7443", ""},
		{"", ""},
		{":7443", ""},
		{"0.0.0.0:7443", ""},
		{"10.0.0.1:7443", ""},
		{"127.0.0.1:7443:7443", ""},
		{"localhost:x", ""},
		{"::1%lo", ""},
		{"user@localhost", ""},
		// A page of the attacker's that sends requests here.
		{"localhost:7443", "http://attacker.example"},
		{"localhost:7443", "null"},
		{"localhost:7443", "https://localhost:7443"},
		{"localhost:7443", "http://localhost"},
		{"localhost:7443", "http://localhost:8080"},
		{"localhost:7443", "http://127.0.0.1:7443"},
		{"localhost:7443", "http://localhost:7443/"},
		{"localhost:7443", "http://localhost:7443@attacker.example"},
		{"localhost:7443", "http://localhost:7443 http://attacker.example"},
		{"localhost:7443", "file://"},
		{"localhost:7443", strings.Repeat("x", 1<<16)},
	} {
		if err := CheckPage(bad[0], bad[1]); !errors.Is(err, ErrForeignPage) || len(err.Error()) > 250 {
			t.Errorf("%.40q: %v, want ErrForeignPage", bad, err)
		}
	}
}

// FuzzCheckPage checks that only the page of this host is accepted.
func FuzzCheckPage(f *testing.F) {
	f.Add("localhost:7443", "http://localhost:7443")
	f.Add("[::1]", "null")
	f.Add("127.0.0.1:1", "")
	f.Fuzz(func(t *testing.T, host, origin string) {
		if CheckPage(host, origin) == nil && origin != "" && origin != "http://"+host {
			t.Fatalf("%q for %q", origin, host)
		}
	})
}
