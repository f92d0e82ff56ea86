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
)

// renounce gives up what a worker must never have: new privileges by exec, and being looked into by
// other processes of the same user, who could take its descriptors. It runs before become, so that
// there is no moment at which that user may look.
func renounce() error {
	if err := noNewPrivileges(); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := notDumpable(); err != nil {
		return err
	}
	// A worker outlives phosd, and so the terminal and the pipe of its standard error.
	signal.Ignore(unix.SIGPIPE, unix.SIGHUP, unix.SIGINT)
	return nil
}

// noNewPrivileges sees to it that all threads have the bit. phosd starts a worker with it. One that
// somebody else has started, and that has cgo in it, cannot give it to threads that run already:
// then the one thread that has it becomes a new program, and all its threads inherit it.
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
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

func notDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("not dumpable: %w", err)
	}
	return nil
}

// firstStranger is where the users begin that workers are while they wait: nobody's on a machine
// whose users are numbered by hand or by systemd. Each has one of its own, so that the driver tells
// them apart by it, as it does programs of several users.
const firstStranger = 0x7e00_0000

// stepAside makes this process of root's act as a stranger, without capabilities: whatever the
// driver notes of whoever opens it is not root's. It stays able to step forward.
func stepAside() error {
	stranger := firstStranger + os.Getpid()
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("wait as user %d: groups: %w", stranger, err)
	}
	if err := syscall.Setresgid(stranger, stranger, 0); err != nil {
		return fmt.Errorf("wait as user %d: group: %w", stranger, err)
	}
	// With the effective user the capabilities go; as the saved one is root, they can be had again.
	if err := syscall.Setresuid(stranger, stranger, 0); err != nil {
		return fmt.Errorf("wait as user %d: %w", stranger, err)
	}
	return notDumpable()
}

// stepForward makes this process root's again, for as long as it takes to become a program's user.
func stepForward() error {
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return fmt.Errorf("become root: %w", err)
	}
	return nil
}

// become turns this process of root's into one of the program's user, for good.
func become(config boot.Config) error {
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
	settle(uid)
	// The change of user sets it to what fs.suid_dumpable says.
	return notDumpable()
}

// settle tells the driver where its user is at home. It keeps there what it has compiled, for all
// programs of the user, with phos and without; where nobody knows, it compiles each time.
func settle(uid int) {
	known, err := user.LookupId(strconv.Itoa(uid))
	if err == nil && known.HomeDir != "" {
		_ = os.Setenv("HOME", known.HomeDir) // without it works, too
	}
}
