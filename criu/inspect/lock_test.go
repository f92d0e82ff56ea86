package inspect

import (
	"maps"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParseLocks checks lines in the kernel's form: proc_locks(5).
func TestParseLocks(t *testing.T) {
	const text = `1: POSIX  ADVISORY  READ  7 08:01:1234 1073741826 1073742335
2: POSIX  ADVISORY  WRITE 7 08:01:1234 120 120
2: -> POSIX  ADVISORY  WRITE 7 fd:1a:99 120 120
3: FLOCK  ADVISORY  WRITE 8 08:01:55 0 EOF
4: POSIX  ADVISORY  READ  7 fd:1a:66 128 128
5: OFDLCK ADVISORY  WRITE -1 08:01:77 0 EOF
`
	got := parseLocks(text, func(pid int) bool { return pid == 7 })
	want := locks{{unix.Mkdev(8, 1), 1234}: "write", {unix.Mkdev(0xfd, 0x1a), 66}: "read"}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestReadLocks finds a lock of this process.
func TestReadLocks(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Len: 1}); err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	found := readLocks(map[int]*member{os.Getpid(): {}})
	if found[lockedFile{stat.Dev, stat.Ino}] != "write" {
		t.Errorf("the lock on %d:%d is not in %v", stat.Dev, stat.Ino, found)
	}
}
