package hosts

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// onThread runs f on a thread of its own, which ends with it. f may change the thread's namespaces.
// It is never the first thread: that one would not end, and is what /proc/PID shows of the process.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread() // until the end of the goroutine: the thread ends, too
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// While this goroutine holds the first thread, another gets a different one.
		began := make(chan struct{})
		onThread(func() { close(began); f() })
		<-began
		runtime.UnlockOSThread()
	}()
}

// enter moves the calling thread into a host's namespaces and its cgroups of version 1. Processes
// that the thread starts then are the host's, except for their cgroup of version 2.
func (i *initProcess) enter() error {
	for _, each := range i.old {
		if err := cgroup.Write(each, "tasks", "0"); err != nil {
			return err
		}
	}
	// The mount namespace of a thread changes only if it shares its directories with no other.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	return unix.Setns(i.pidfd, unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWUTS|
		unix.CLONE_NEWIPC|unix.CLONE_NEWPID|unix.CLONE_NEWCGROUP)
}

// errLeft is returned when the function ended its goroutine.
var errLeft = errors.New("the function did not return")

// do runs f on a thread in the host's namespaces.
func (i *initProcess) do(f func() error) error {
	done := make(chan error, 1)
	onThread(func() {
		err := errLeft
		defer func() { done <- err }()
		if err = i.enter(); err != nil {
			err = fmt.Errorf("enter the host: %w", err)
			return
		}
		err = errLeft
		err = f()
	})
	return <-done
}
