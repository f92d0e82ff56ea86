package arrive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cli/migrate/wire"
)

// open returns a decision that is open, in a home of its own.
func open(t *testing.T) *decision {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	d, err := newDecision()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// asked is what a source hears that knows the name.
func asked(t *testing.T, name string) wire.Message {
	t.Helper()
	d, err := decisionNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	told, err := d.answer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return told
}

// TestAnswers asks twice: an answer may be lost.
func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*decision) error
		want wire.Message
	}{
		"open":    {func(*decision) error { return nil }, wire.Message{Kind: wire.Absent}},
		"refused": {(*decision).refuse, wire.Message{Kind: wire.Absent}},
		"runs": {
			func(d *decision) error { return errors.Join(d.take(), d.runs(7)) },
			wire.Message{Kind: wire.Running, PID: 7},
		},
		"undone": {func(d *decision) error { return errors.Join(d.take(), d.undo()) }, wire.Message{Kind: wire.Absent}},
		"gone":   {(*decision).forget, wire.Message{Kind: wire.Unknown}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			if err := test.do(d); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := asked(t, d.name()); got != test.want {
					t.Errorf("got %v, want %v", got, test.want)
				}
			}
			if err := d.take(); err == nil {
				t.Error("it is taken after the answer")
			}
		})
	}
}

// TestTakenStays: what is taken is not refused while it is about to run.
func TestTakenStays(t *testing.T) {
	d := open(t)
	if err := d.take(); err != nil {
		t.Fatal(err)
	}
	if err := d.refuse(); err == nil {
		t.Error("it is refused after it was taken")
	}
	go func() {
		time.Sleep(3 * lookTime)
		_ = d.runs(8) // asked fails then
	}()
	if got := asked(t, d.name()); got.Kind != wire.Running || got.PID != 8 {
		t.Errorf("got %v", got)
	}
}

// TestNames: a source cannot ask for other files.
func TestNames(t *testing.T) {
	for _, name := range []string{"", ".", "..", "../x", "a/b", "/etc"} {
		if _, err := decisionNamed(name); err == nil {
			t.Errorf("%q is taken for the name of a move", name)
		}
	}
}

// TestOldDecisions: those are forgotten for which no source has asked.
func TestOldDecisions(t *testing.T) {
	old := open(t)
	long := time.Now().Add(-2 * keepTime)
	if err := os.Chtimes(old.dir, long, long); err != nil {
		t.Fatal(err)
	}
	fresh, err := newDecision()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if !fresh.is(openName) {
		t.Error("the new one is gone")
	}
}

// TestSweep removes what a killed process has left, and not what another one uses.
func TestSweep(t *testing.T) {
	below := t.TempDir()
	for _, name := range []string{"left", "used", "new"} {
		if err := os.Mkdir(filepath.Join(below, prefix+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "new" {
			continue
		}
		if err := os.WriteFile(filepath.Join(below, prefix+name, imageName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	used, err := hold(filepath.Join(below, prefix+"used"))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	sweep(below)
	left, err := filepath.Glob(filepath.Join(below, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
