// Package scarce limits what the test's own process may use.
package scarce

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Files limits how many more files this process may open, until the test ends or enough is called.
func Files(t testing.TB, more int) (enough func()) {
	t.Helper()
	var all unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: uint64(next + more), Max: all.Max}
	if err := errors.Join(unix.Close(next), unix.Setrlimit(unix.RLIMIT_NOFILE, &few)); err != nil {
		t.Fatal(err)
	}
	enough = func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &all); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(enough)
	return enough
}
