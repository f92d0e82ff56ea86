package runner

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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
