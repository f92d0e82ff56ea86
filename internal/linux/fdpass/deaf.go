package fdpass

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// Deafen makes the process go on whatever a terminal, a shell or an init sends it. The signals are
// caught and not ignored: CRIU would inherit that they are, and waits for processes that it ends by
// one of them.
func Deafen() {
	nobody := make(chan os.Signal, 1)
	signal.Notify(
		nobody,
		unix.SIGINT,
		unix.SIGTERM,
		unix.SIGHUP,
		unix.SIGPIPE,
		unix.SIGQUIT,
		unix.SIGTSTP,
		unix.SIGTTIN,
		unix.SIGTTOU,
	)
}
