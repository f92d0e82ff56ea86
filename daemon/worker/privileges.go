package worker

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/worker/boot"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// harden makes sure that the worker gains no privileges by exec, and that other processes
// of the same user cannot ptrace it and take its file descriptors. It runs before becomeUser, so
// the user never has a chance to ptrace it.
func harden() error {
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := setNotDumpable(); err != nil {
		return err
	}
	// A worker outlives phosd, and with it the terminal and the pipe of its standard error.
	signal.Ignore(unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	return nil
}

// noNewPrivileges sets no_new_privs on all threads. phosd starts workers with it set. A worker that
// was started otherwise and contains cgo cannot set it on threads that already run. Then one thread
// sets it and executes the same program again, whose threads inherit it.
func noNewPrivileges() error {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || set == 1 {
		return err
	}
	_, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno == 0 {
		return nil
	}
	if !errors.Is(errno, syscall.ENOTSUP) {
		return errno
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(proc.OwnExecutable, os.Args, os.Environ())
}

// setNotDumpable keeps the user's other processes from tracing this one or reading its memory.
func setNotDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	return nil
}

// firstStandbyUID is the first of the UIDs that standby workers use. Neither people nor systemd
// assign UIDs in this range. Each worker has its own, because the driver tells clients of different
// users apart.
const firstStandbyUID = 0x7e00_0000

// assumeStandbyUser makes this root process run as an unused user without capabilities, so the
// driver does not record root as the one that opened the device. The saved UID stays root, for
// regainRoot.
func assumeStandbyUser() error {
	uid := firstStandbyUID + os.Getpid()
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("become standby user %d: groups: %w", uid, err)
	}
	if err := syscall.Setresgid(uid, uid, 0); err != nil {
		return fmt.Errorf("become standby user %d: group: %w", uid, err)
	}
	// Changing the effective UID drops the capabilities. The saved UID stays root, so that they can be
	// regained.
	if err := syscall.Setresuid(uid, uid, 0); err != nil {
		return fmt.Errorf("become standby user %d: %w", uid, err)
	}
	return setNotDumpable()
}

// regainRoot makes this process root again, until it becomes a program's user.
func regainRoot() error {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return fmt.Errorf("become root: %w", err)
	}
	return nil
}

// becomeUser drops privileges: it switches this root process permanently to the program's user.
func becomeUser(config boot.Config) error {
	groups := make([]int, len(config.Groups))
	for i, group := range config.Groups {
		groups[i] = int(group)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return fmt.Errorf("become user %d: groups: %w", config.UID, err)
	}
	gid, uid := int(config.GID), int(config.UID)
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("become user %d: group %d: %w", config.UID, config.GID, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("become user %d: %w", config.UID, err)
	}
	setHome(uid)
	// The change of user resets the flag to fs.suid_dumpable.
	return setNotDumpable()
}

// setHome sets HOME to the user's home directory. The driver caches compiled code there, for all
// programs of the user, with and without phos. Without HOME it compiles each time.
func setHome(uid int) {
	account, err := user.LookupId(strconv.Itoa(uid))
	if err == nil && account.HomeDir != "" {
		_ = os.Setenv("HOME", account.HomeDir) // only a cache depends on it
	}
}
