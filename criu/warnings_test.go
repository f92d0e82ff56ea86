package criu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestWarnings: a missing CRIU is reported as long as it is missing, and the kernel's tracking of
// written pages once it is known.
func TestWarnings(t *testing.T) {
	missing := New(Options{Program: "/nowhere/criu"})
	missing.Learn(t.Context())
	if got := missing.Warnings(t.Context()); len(got) != 1 || !strings.Contains(got[0], "/nowhere/criu") ||
		!strings.Contains(got[0], remedy()) {
		t.Errorf("got %q, want the missing program and what to do", got)
	}
	program := filepath.Join(t.TempDir(), "criu")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho Version: 4.2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	made := New(Options{Program: program})
	for _, test := range []struct {
		known *bool
		want  string
	}{{nil, ""}, {proto.Bool(true), ""}, {proto.Bool(false), "does not track written pages"}} {
		made.tracking.known = test.known
		got := strings.Join(made.Warnings(t.Context()), "\n")
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("known %v: got %q, want %q", test.known, got, test.want)
		}
	}
}
