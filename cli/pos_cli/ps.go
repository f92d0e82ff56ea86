package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/status"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
)

// watchEvery is the time between two tables of --watch.
const watchEvery = 2 * time.Second

var psVerb = verb.Verb{
	Name: "ps", Word: true,
	Summary: "list programs, and the pids to save them by",
	About: `Lists the caller's programs; for root, those of all users. --status shows phosd and the GPUs too.

    pos_cli ps
    pos_cli ps --watch
    pos_cli --dump --dir /data/ckpt --pid $(pos_cli ps --json | jq '.[0].root_pid')

TREE is the pid to name to --pre-dump and --dump. It is the program's own pid, or, if the program was
started by a launcher under phos (pos_cli run -- torchrun ...), the launcher's: then all programs of
the launcher have the same TREE, and are saved as one image. SAVED is the time since the last
checkpoint, IMAGE its directory. The states are those of --status.

--watch prints the table again every 2 seconds, until Ctrl-C. --json prints an array of the objects
that --status --json has in programs; with --watch, one array per line.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		watch := flags.Bool("watch", false, "print the table again every 2 seconds")
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if *watch {
				return watchPS(ctx, to, *asJSON)
			}
			return showPS(ctx, to, *asJSON, "")
		}
	},
}

// watchPS prints the table until the context ends.
func watchPS(ctx context.Context, to verb.Streams, asJSON bool) error {
	lead := ""
	if file, isFile := to.Out.(*os.File); isFile && terminal.IsTerminal(file) && !asJSON {
		lead = "\x1b[H\x1b[2J" // the cursor to the top, and an empty screen
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := showPS(ctx, to, asJSON, lead); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if lead == "" && !asJSON {
			lead = "\n"
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// showPS prints the programs once, after a text.
func showPS(ctx context.Context, to verb.Streams, asJSON bool, lead string) error {
	view, err := fetchStatus(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(to.Out).Encode(view.Programs)
	}
	fmt.Fprint(to.Out, lead)
	return view.PS(to.Out)
}

// fetchStatus asks phosd for its status.
func fetchStatus(ctx context.Context) (status.View, error) {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return status.View{}, err
	}
	defer client.Close()
	reply, err := client.Daemon.Status(ctx, &api.StatusRequest{})
	if err != nil {
		return status.View{}, err
	}
	return status.Of(reply, time.Now()), nil
}
