package readiness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Run runs the main part of a daemon until that returns, or until SIGTERM or SIGINT end its
// context, and returns the exit status. An error is said on the pipe of --ready-fd and on standard
// error.
func Run(name string, readyFD int, serve func(context.Context, *Pipe) error) int {
	ready := OpenPipe(readyFD)
	defer ready.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, ready); err != nil && !errors.Is(err, context.Canceled) {
		ready.Say("%v", err)
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
