package proc

import (
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// StartConfined starts a command whose process gets no new privileges by exec from its first moment
// on. One with several threads that gives them up itself has to start anew for that, which takes as
// long as its start.
func StartConfined(command *exec.Cmd) error {
	started := make(chan error)
	go func() {
		// For ever: the thread has given them up too, and ends here.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			started <- fmt.Errorf("no_new_privs: %w", err)
			return
		}
		started <- command.Start()
	}()
	return <-started
}
