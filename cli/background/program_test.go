package background

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// daemon returns a daemon that is a shell script.
func daemon(t *testing.T, script string) (p Program, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "daemon")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return Program{Name: "daemon", Log: filepath.Join(dir, "log"), Record: filepath.Join(dir, "run", "daemon.json")}, path
}

func TestStartAndStop(t *testing.T) {
	p, path := daemon(t, `trap 'exit 0' TERM; printf 'ready\tx\n' >&3; exec 3>&-; echo log >&2; while :; do sleep 0.01; done`)
	line, err := p.Start(t.Context(), path, nil)
	if err != nil || line != "ready\tx" {
		t.Fatalf("%q, %v", line, err)
	}
	handle, id, err := p.Running()
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if !handle.Ended() {
		t.Errorf("pid %d still runs", id.PID)
	}
	if err := p.Stop(t.Context()); !errors.Is(err, ErrNotRunning) {
		t.Errorf("stopped twice: %v", err)
	}
}

func TestFailedStart(t *testing.T) {
	for script, want := range map[string]string{
		"exit 3":                           "daemon exited: exit status 3",
		"printf 'the port is taken' >&3":   "the port is taken (its log is ",
		"printf 'the port is taken\n' >&3": "the port is taken",
	} {
		p, path := daemon(t, script)
		line, err := p.Start(t.Context(), path, nil)
		if text := line; err == nil && !strings.Contains(text, want) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", script, line, err)
		}
		if _, _, err := p.Running(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// TestCancelled: a daemon that never says anything is killed.
func TestCancelled(t *testing.T) {
	p, path := daemon(t, "exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Start(ctx, path, nil); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
}

// TestRecords: a record of another process with the same pid, or a damaged one, stops nothing.
func TestRecords(t *testing.T) {
	p, _ := daemon(t, "")
	if err := p.record(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.Record)
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []string{
		strings.Replace(string(text), `"start_ticks":`, `"start_ticks":1`, 1), `{"pid":1,"start_ticks":0}`, "{}", "",
	} {
		if err := os.WriteFile(p.Record, []byte(each), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Stop(t.Context()); err == nil {
			t.Errorf("%q: no error", each)
		}
	}
}
