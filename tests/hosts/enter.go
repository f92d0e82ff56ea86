package hosts

import (
	"errors"
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

// enter moves the calling thread into a host's namespaces. Processes that the thread starts then
// are the host's, except for their cgroups.
func (i *initProcess) enter() error {
	// The mount namespace of a thread changes only if it shares its directories with no other.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	err := unix.Setns(i.pidfd, unix.CLONE_NEWNS|unix.CLONE_NEWNET|unix.CLONE_NEWUTS|
		unix.CLONE_NEWIPC|unix.CLONE_NEWPID|unix.CLONE_NEWCGROUP)
	if err != nil {
		return err
	}
	// The root directory is that of the mount namespace now.
	if err := unix.Fchdir(int(i.root.Fd())); err != nil {
		return err
	}
	return unix.Chroot(".")
}

// join moves the calling thread into a host's cgroups of version 1, by their names on the machine.
func (i *initProcess) join() error {
	for _, each := range i.old {
		if err := cgroup.Write(each, "tasks", "0"); err != nil {
			return err
		}
	}
	return nil
}

// errLeft is returned when the function ended its goroutine.
var errLeft = errors.New("the function did not return")

// do runs f on a thread in the host's namespaces. The thread's cgroups remain those of this
// process: it may outlive the host.
func (i *initProcess) do(f func() error) error { return inOrder(i.enter, f) }

// startProcess is do for a function that starts a process of the host.
func (i *initProcess) startProcess(f func() error) error { return inOrder(i.join, i.enter, f) }

// inOrder calls functions on a thread of their own, until one fails.
func inOrder(steps ...func() error) error {
	done := make(chan error, 1)
	onThread(func() {
		err := errLeft
		defer func() { done <- err }()
		for _, step := range steps {
			if failed := step(); failed != nil {
				err = failed
				return
			}
		}
		err = nil
	})
	return <-done
}
