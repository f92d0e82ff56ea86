package runner

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Enter moves the calling thread, and the processes that it starts, into namespaces. The thread
// must be locked to its goroutine and never be given back.
func Enter(namespaces []*os.File) error {
	if len(namespaces) == 0 {
		return nil
	}
	// A mount namespace is entered only by one who shares no root and working directory with other
	// threads.
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
