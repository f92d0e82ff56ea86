package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// crashPoint tells a child of this test at which operation on names to die.
const crashPoint = "PHOS_TEST_STORE_CRASH"

// TestMain is also the child: it changes an image and dies in the middle.
func TestMain(m *testing.M) {
	if order := os.Getenv(crashPoint); order != "" {
		crash(order)
	}
	os.Exit(m.Run())
}

// script changes an image while failures are injected.
func script(d *Dir, verb string) error {
	switch verb {
	case "save":
		_, err := tryPut(d, small(77))
		return err
	case "prune":
		_, err := d.Prune(context.Background(), Keep{Newest: 1})
		return err
	case "clean":
		_, err := d.Clean()
		return err
	}
	return fmt.Errorf("no verb %q", verb)
}

func crash(order string) {
	fields := strings.Fields(order) // verb, number, before or after, path
	left, _ := strconv.Atoi(fields[1])
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	dir, err := os.Open(fields[3])
	if err == nil {
		var d *Dir
		d, err = Open(dir, As(func(f func() error) error {
			if left--; left == 0 && fields[2] == "before" {
				die()
			}
			err := f()
			if left == 0 {
				die()
			}
			return err
		}))
		if err == nil {
			err = script(d, fields[0])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// prepared returns an image of three generations with packs worth pruning.
func prepared(t *testing.T) string {
	path := t.TempDir()
	d, err := Init(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i := range uint64(3) {
		put(t, d, small(i+1))
	}
	return path
}

// TestCrashAtEveryOperation kills a writer before and after each of its operations on names. Old
// data stays, new data is complete or absent, and the next writer cleans up.
func TestCrashAtEveryOperation(t *testing.T) {
	for _, verb := range []string{"save", "prune"} {
		for _, when := range []string{"before", "after"} {
			for n, survived := 1+rounds.First(7), false; !survived; n += rounds.Of(7, 1) {
				path := prepared(t)
				child := exec.Command(os.Args[0])
				child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s %s", crashPoint, verb, n, when, path))
				output, err := child.CombinedOutput()
				var exit *exec.ExitError
				if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("%s %s %d: %v: %s", verb, when, n, err, output)
				}
				survived = err == nil
				afterwards(t, path, fmt.Sprintf("%s, killed %s operation %d", verb, when, n), verb)
				if n > 500 {
					t.Fatal("too many operations")
				}
			}
		}
	}
}

// afterwards checks that an image is valid and usable after a failure.
func afterwards(t *testing.T, path, what, verb string) {
	t.Helper()
	if found := problems(t, path); len(found) > 0 {
		t.Fatalf("%s: %v", what, found)
	}
	d, err := Open(openDir(t, path))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer d.Close()
	all, err := d.Generations()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		want := small(n)
		if n == 4 {
			want = small(77)
		}
		check(t, d, n, want)
	}
	if verb == "save" && (len(all) < 3 || len(all) > 4) || len(all) == 0 {
		t.Errorf("%s: generations %v", what, all)
	}
	next := put(t, d, small(50))
	check(t, d, next, small(50))
	if left, _ := os.ReadDir(filepath.Join(path, tmpName)); len(left) > 0 {
		t.Errorf("%s: left in tmp by the next writer: %v", what, left)
	}
	if _, err := d.Prune(context.Background(), Keep{Newest: 1}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	check(t, d, next, small(50))
	if found := problems(t, path); len(found) > 0 {
		t.Fatalf("%s, and a prune later: %v", what, found)
	}
	if packs, _, _, err := d.Sizes(context.Background()); err != nil || packs > 3 {
		t.Errorf("%s: %d packs are left for one generation, %v", what, packs, err)
	}
}

// TestFailureOfEveryOperation makes each operation on names fail once. A failed save leaves every
// file as it was.
func TestFailureOfEveryOperation(t *testing.T) {
	for _, verb := range []string{"save", "prune", "clean"} {
		for n, done := 1+rounds.First(7), false; !done; n += rounds.Of(7, 1) {
			path := prepared(t)
			before := filesOf(t, path)
			left := n
			d, err := Open(openDir(t, path), As(func(f func() error) error {
				if left--; left == 0 {
					return unix.EIO
				}
				return f()
			}))
			if err == nil {
				err = script(d, verb)
				d.Close()
			}
			done = left > 0
			if done && err != nil {
				t.Fatalf("%s without a failure: %v", verb, err)
			}
			what := fmt.Sprintf("%s, operation %d failed", verb, n)
			if err != nil && (!errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), path)) {
				t.Errorf("%s: error lacks operation or path: %v", what, err)
			}
			if verb == "clean" {
				cleanedAfterwards(t, path, what, done)
				continue
			}
			if err != nil && verb == "save" {
				cleared := filesOf(t, path)
				for name := range cleared {
					// The next writer removes what could not be removed.
					if strings.HasPrefix(name, tmpName+"/") {
						delete(cleared, name)
					}
				}
				delete(cleared, "generations/000004")
				for name := range cleared {
					if _, old := before[name]; !old && strings.HasPrefix(name, packsName) {
						delete(cleared, name)
					}
				}
				same(t, before, cleared)
			}
			afterwards(t, path, what, verb)
		}
	}
}

// cleanedAfterwards checks that Clean can be repeated after a failure until nothing is left.
func cleanedAfterwards(t *testing.T, path, what string, done bool) {
	t.Helper()
	if !done {
		_, err := Remove(openDir(t, path))
		empty, _ := os.ReadDir(path)
		if err != nil && (len(empty) > 0 || !errors.Is(err, ErrNoImage)) {
			t.Errorf("%s: a second try: %v", what, err)
		}
	}
	if left, err := os.ReadDir(path); len(left) > 0 || err != nil {
		t.Errorf("%s: left: %v, %v", what, left, err)
	}
}

// TestDiskFull saves to a file system that is too small.
func TestDiskFull(t *testing.T) {
	harness.Need(t, "root", harness.Root())
	path := t.TempDir()
	if err := unix.Mount("phos-test", path, "tmpfs", 0, "size=3m"); err != nil {
		harness.Need(t, "root", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	d, err := Init(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	put(t, d, small(1))
	before := filesOf(t, path)
	for _, what := range []saved{
		{memory: [][]byte{noise(5, 1<<20), noise(6, 1<<20), noise(7, 1<<20)}},
		{files: map[string][]byte{"pages": noise(8, 4<<20)}},
	} {
		if _, err := tryPut(d, what); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("disk full: %v", err)
		}
		same(t, before, filesOf(t, path))
	}
	put(t, d, small(2))
	check(t, d, 1, small(1))
	check(t, d, 2, small(2))
}
