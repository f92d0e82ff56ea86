// Package namespace moves threads into the namespaces of another process. Tested by criu and
// cluster/agent/supervisor.
package namespace

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// user is the kind of the namespace that a process with several threads cannot enter.
const user = "user"

// kinds are all others, in the order in which they are entered.
var kinds = []string{"cgroup", "ipc", "uts", "net", "pid", "mnt"}

// Differing opens those namespaces of a process that the calling thread is not in. ownUser reports
// whether its user namespace is another one, too.
func Differing(id proc.Identity) (files []*os.File, ownUser bool, err error) {
	for _, kind := range append(kinds, user) {
		theirs, err := id.Namespace(kind)
		if errors.Is(err, os.ErrNotExist) && !id.Gone() {
			continue // a kernel without this kind
		}
		ours, ownErr := proc.OwnNamespace(kind)
		if err := errors.Join(err, ownErr); err != nil {
			Close(files)
			return nil, false, err
		}
		switch {
		case theirs == ours:
		case kind == user:
			ownUser = true
		default:
			file, err := proc.OpenNamespace(id.PID, kind)
			if err != nil {
				Close(files)
				return nil, false, err
			}
			files = append(files, file)
		}
	}
	if err := id.Check(); err != nil { // the pid may have been another process's
		Close(files)
		return nil, false, err
	}
	return files, ownUser, nil
}

// Close closes files that Differing has opened.
func Close(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// Do does some work in namespaces, on a thread that ends with it.
func Do(namespaces []*os.File, work func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := Enter(namespaces)
		if err == nil {
			err = work()
		}
		done <- err
	}()
	return <-done
}

// Enter moves the calling thread, and the processes that it starts, into namespaces. The thread
// must be locked to its goroutine and must never be unlocked.
func Enter(namespaces []*os.File) error {
	if len(namespaces) == 0 {
		return nil
	}
	// Only a thread that shares its root and working directory with no other thread may enter a
	// mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	for _, namespace := range namespaces {
		if err := unix.Setns(int(namespace.Fd()), 0); err != nil {
			return fmt.Errorf("enter %s: %w", namespace.Name(), err)
		}
	}
	return nil
}
