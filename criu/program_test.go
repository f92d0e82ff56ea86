package criu

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// TestUnsuitableCRIU: without a suitable CRIU nothing is stopped, and the error has a remedy.
func TestUnsuitableCRIU(t *testing.T) {
	for _, test := range []struct {
		says string // empty: no program
		want error
		text string
	}{
		{"", ErrNoProgram, "no CRIU is installed at "},
		{"Version: 3.17.1\n", ErrOld, "version 3.17.1 at "},
		{"Version: 4.0\nGitID: v4.0\n", ErrOld, "version 4.0 at "},
		{"Version: 4.2.1\nGitID: v4.2.1\n", nil, ""},
		{"Version: 5.0\n", nil, ""},
		{"some other words\n", nil, ""},
	} {
		program := filepath.Join(t.TempDir(), "criu")
		if test.says != "" {
			if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '"+test.says+"'\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cpu := New(Options{Program: program})
		_, err := cpu.version.get(t.Context(), program)
		if !errors.Is(err, test.want) || err != nil && !strings.HasPrefix(err.Error(), test.text) {
			t.Errorf("%q: %v, want %v", test.says, err, test.want)
		}
		found := obstacle(t, cpu)
		if (test.want != nil) != strings.HasPrefix(found, test.text+program) || test.want == nil && found != "" {
			t.Errorf("%q: got obstacle %q", test.says, found)
		}
	}
}

// TestOldestCRIU checks the oldest CRIU for a kernel, here and in scripts/criu.sh.
func TestOldestCRIU(t *testing.T) {
	for _, test := range []struct {
		kernel, criu string
		old          bool
	}{
		{"6.1.0-41-amd64", "4.0", true},
		{"6.1.0-41-amd64", "4.1", false},
		{"6.15.9", "4.1.1", false},
		{"6.16.0", "4.1.1", true},
		{"6.16.0", "4.2", false},
		{"7.0-rc1", "4.1", true},
		{"7.0-rc1", "4.2.1", false},
		{"6.18.44-fc", "5.0", false},
	} {
		if err := checkVersion(test.criu, "criu", test.kernel); errors.Is(err, ErrOld) != test.old {
			t.Errorf("CRIU %s on Linux %s: got %v, want too old: %v", test.criu, test.kernel, err, test.old)
		}
		script := exec.CommandContext(t.Context(), "bash", "-c",
			`set -eu; ROOT=.. CACHE=/nonexistent; . ../scripts/go.sh; . ../scripts/criu.sh; oldest_criu "$1"`, "bash", test.kernel)
		output, err := script.CombinedOutput()
		if got := strings.TrimSpace(string(output)); err != nil || got != oldestFor(test.kernel) {
			t.Errorf("oldest_criu %s: got %q, %v, want %s", test.kernel, got, err, oldestFor(test.kernel))
		}
	}
}

// obstacle returns the obstacle concerning CRIU when a process is inspected.
func obstacle(t *testing.T, cpu *CPU) string {
	t.Helper()
	self, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tree, err := cpu.Inspect(ctx, self)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range tree.Obstacles {
		if each.Subject == "CRIU" {
			return each.Reason
		}
	}
	return ""
}
