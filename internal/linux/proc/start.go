package proc

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// StartConfined starts a command with no_new_privs set from the beginning. A process with several
// threads would have to execute itself again to set it for all.
func StartConfined(command *exec.Cmd) error {
	started := make(chan error)
	go func() {
		// Never unlocked: the thread has no_new_privs, too, and must end here.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			started <- fmt.Errorf("no_new_privs: %w", err)
			return
		}
		started <- command.Start()
	}()
	return <-started
}
