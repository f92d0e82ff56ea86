package runner

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// RaiseLimits raises the limit of open files to its maximum, for this process and the CRIU that it
// starts. CRIU keeps its own descriptors above those of the programs. A restored program gets its
// own limit from its image.
func RaiseLimits() {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		files.Cur = files.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) // if it fails, CRIU reports what it lacks
	}
}

// DenyWrites makes CRIU's writes fail. CRIU handles that like a full disk: it restores all
// processes and exits. Killed, it could leave them in its own code.
func DenyWrites(pid int, user User) error {
	err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	// Without CAP_SYS_RESOURCE only a process of the same user may do that.
	done := make(chan error)
	go func() {
		// The goroutine ends with its thread locked, because the thread is the user's from here on.
		runtime.LockOSThread()
		done <- denyWritesAs(pid, user)
	}()
	return <-done
}

// denyWritesAs makes the calling thread the user's, and then CRIU's writes fail.
func denyWritesAs(pid int, user User) error {
	uid, gid := uintptr(user.UID), uintptr(user.GID)
	// Not unix.Setresuid, which changes all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return errno
	}
	return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil)
}
