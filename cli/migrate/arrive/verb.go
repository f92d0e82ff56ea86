package arrive

import (
	"context"
	"flag"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cli/migrate/wire"
	"github.com/phos-gpu/phos/cli/verb"
)

// Verb is --take-over.
var Verb = verb.Verb{
	Name:    "take-over",
	Summary: "receive a program that --migrate --to sends; started by it",
	About: `Receives a running program of another machine by standard input, restores it by the phosd of this
machine, and ends when all its memory is loaded. It is not started by hand: --migrate --to starts it
here by ssh.

The image is received into memory, in a directory below --dir, and is removed at the end. The program
runs as the user that it ran as. Users other than root can take over only their own programs, from
machines whose key was imported here (pos_cli help image key).`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		below := flags.String("dir", "/dev/shm", "`DIR` for the image")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			// A broken connection is an error of a write, after which there is much to be undone.
			signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
			return serve(ctx, wire.New(os.Stdin, to.Out), *below)
		}
	},
}
