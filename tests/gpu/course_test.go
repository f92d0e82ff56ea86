package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain runs the attendant if this binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == attendant {
		main()
	}
	os.Exit(m.Run())
}

// testRow returns a row that calls show.
func testRow(part, name string, about time.Duration, show func(context.Context) error) row {
	return row{
		part,
		name,
		nil,
		about,
		time.Hour,
		func(ctx context.Context, _ *machine) ([]figure, error) { return nil, show(ctx) },
	}
}

func newCourse(t *testing.T, dir string, part time.Duration) *course {
	t.Helper()
	m := &machine{lacks: map[fact]string{hasTorch: "there is none"}}
	j, err := openJournal(filepath.Join(dir, "rows.jsonl"), m.identity)
	if err != nil {
		t.Fatal(err)
	}
	return &course{machine: m, journal: j, report: newReport(m, dir), part: part, began: time.Now()}
}

// TestContinue: a second run repeats rows that are missing or were impossible. It does not repeat
// rows that passed or, unless asked, rows that failed. A row that does not fit into its part's time
// is left out, and a row that was cut off runs again.
func TestContinue(t *testing.T) {
	dir, shown := t.TempDir(), []string(nil)
	note := func(name string, err error) func(context.Context) error {
		return func(context.Context) error { shown = append(shown, name); return err }
	}
	torch := testRow("b", "torch", 0, note("torch", nil))
	torch.needs = []fact{hasTorch}
	endless := testRow("c", "endless", 0, func(ctx context.Context) error {
		shown = append(shown, "endless")
		<-ctx.Done()
		return ctx.Err()
	})
	rows := []row{
		testRow("a", "passes", 0, note("passes", nil)), testRow("a", "fails", 0, note("fails", errors.New("no"))), torch,
		testRow("a", "long", time.Hour, note("long", nil)), testRow("b", "skips", 0, note("skips", skip{"nothing to see"})),
		testRow("c", "first", 0, note("first", nil)), endless,
	}
	run := func(part time.Duration) (*course, error) {
		shown = nil
		c := newCourse(t, dir, part)
		c.plan(io.Discard, rows)
		return c, c.run(t.Context(), rows)
	}
	c, err := run(2 * time.Second)
	if want := []string{"passes", "fails", "skips", "first", "endless"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("the first run showed %v, want %v (%v)", shown, want, err)
	}
	if len(c.left) != 2 || c.left[0].name != "long" || c.left[1].name != "endless" ||
		c.journal.done["c endless"].Verdict != cutOff {
		t.Errorf("left: %v", c.left)
	}
	if err := c.conclude(c.journal.of(rows)); err == nil || !strings.Contains(err.Error(), "a/fails") ||
		strings.Contains(err.Error(), "endless") {
		t.Errorf("got conclusion %v", err)
	}
	// Its expected time is all of a part's time now, so it is tried, and fails.
	c, err = run(2 * time.Second)
	if want := []string{"long", "skips", "endless"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("the second run showed %v, want %v (%v)", shown, want, err)
	}
	if o := c.journal.done["c endless"]; o.Verdict != failed || !strings.Contains(o.Why, "not done after") {
		t.Errorf("with all the time that there is: %+v", o)
	}
	text, err := os.ReadFile(c.report.base + ".md")
	if err != nil || strings.Count(string(text), "\n| ") != len(rows)+2 {
		t.Errorf("the table: %s (%v)", text, err)
	}
}

// TestAttended: the attendant removes everything that a program has left, however the program ends:
// processes, also of other sessions, and files.
func TestAttended(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut off %v", cut), func(t *testing.T) {
			p := places{t.TempDir(), t.TempDir(), t.TempDir()}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// It reports when the other process has started, and continues until it is told to
			// stop, or cut off.
			command := exec.CommandContext(
				ctx,
				"sh",
				"-c",
				`setsid sleep 600 & echo > "$0/left"; echo $!; read line`,
				p.disk,
			)
			in, err := command.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(withAttendant(command, p), command.Start()); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if cut {
				cancel()
			} else {
				_ = in.Close()
			}
			_ = command.Wait()
			if pid := strings.TrimSpace(line); pid == "" || !processGone(pid) {
				t.Errorf("process %q was left behind", pid)
			}
			for _, place := range p.arguments() {
				if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
					t.Errorf("%s contains %v (%v)", place, left, err)
				}
			}
		})
	}
}

func processGone(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return errors.Is(err, os.ErrNotExist)
}
