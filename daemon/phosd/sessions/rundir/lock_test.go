package rundir

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLockOfDead: the process that a lock names has ended, and a child of it still has it open.
func TestLockOfDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	held, next := open(), open()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		holder int
		taken  bool
	}{{os.Getpid(), false}, {1<<22 + 1, true}} {
		if err := os.WriteFile(path, strconv.AppendInt(nil, int64(test.holder), 10), 0o600); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond, func() {
			if test.taken {
				_ = held.Close()
			}
		})
		if err := takeLock(next); (err == nil) != test.taken {
			t.Errorf("lock of pid %d: %v, taken %v wanted", test.holder, err, test.taken)
		}
	}
}
