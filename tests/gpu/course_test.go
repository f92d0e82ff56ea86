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

// TestMain is the attendant where this binary was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == attendant {
		main()
	}
	os.Exit(m.Run())
}

// testRow is a row that shows what it is told to.
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

// TestContinue: a second run looks at what is missing and at what was impossible, not at what has
// passed, nor, unasked, at what failed; a row that does not fit into its part's time is left, and
// one that is cut off comes again.
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
		t.Errorf("the first time %v are shown, want %v (%v)", shown, want, err)
	}
	if len(c.left) != 2 || c.left[0].name != "long" || c.left[1].name != "endless" ||
		c.journal.done["c endless"].Verdict != cutOff {
		t.Errorf("left: %v", c.left)
	}
	if err := c.conclude(c.journal.of(rows)); err == nil || !strings.Contains(err.Error(), "a/fails") ||
		strings.Contains(err.Error(), "endless") {
		t.Errorf("the conclusion is %v", err)
	}
	// It is thought to take as long as it had, which is all of a part's time by now: it is tried, and
	// fails.
	c, err = run(2 * time.Second)
	if want := []string{"long", "skips", "endless"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("the second time %v are shown, want %v (%v)", shown, want, err)
	}
	if o := c.journal.done["c endless"]; o.Verdict != failed || !strings.Contains(o.Why, "not done after") {
		t.Errorf("with all the time that there is: %+v", o)
	}
	text, err := os.ReadFile(c.report.base + ".md")
	if err != nil || strings.Count(string(text), "\n| ") != len(rows)+2 {
		t.Errorf("the table: %s (%v)", text, err)
	}
}

// TestAttended: what a program has left goes with its attendant, however the program ends:
// processes, also of other sessions, and files.
func TestAttended(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut off %v", cut), func(t *testing.T) {
			p := places{t.TempDir(), t.TempDir(), t.TempDir()}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// It says when it has started the other one, and goes on until it is told, or cut off.
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
			if err := errors.Join(attended(command, p), command.Start()); err != nil {
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
			if pid := strings.TrimSpace(line); pid == "" || !gone(pid) {
				t.Errorf("process %q is left", pid)
			}
			for _, place := range p.arguments() {
				if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
					t.Errorf("%s holds %v (%v)", place, left, err)
				}
			}
		})
	}
}

func gone(pid string) bool {
	_, err := os.Stat("/proc/" + pid)
	return errors.Is(err, os.ErrNotExist)
}
