package fdpass

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// IgnoreSignals makes the process ignore the signals of a terminal, a shell or an init. They are
// caught and not set to be ignored, because CRIU would inherit that and waits for processes that it
// ends by one of these signals.
func IgnoreSignals() {
	caught := make(chan os.Signal, 1)
	signal.Notify(
		caught,
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
