package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/status"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	cluster "github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/daemon/api"
)

// watchEvery is the time between two tables of --watch.
const watchEvery = 2 * time.Second

var psVerb = verb.Verb{
	Name: "ps", Word: true,
	Summary: "list launches, and the programs of this machine",
	About: `Lists the launches of the cluster, the newest first, and below them the caller's programs on this
machine that belong to no launch; for root, those of all users. --local lists all programs of this
machine and asks no cluster. --status shows phosd and the GPUs too.

    phos ps -a                     with launches that have ended
    phos ps --watch
    phos ps --json | jq -r '.[] | select(.kind == "launch" and .phase == "queued") | .id'
    pos_cli --dump --dir /data/ckpt --pid $(pos_cli ps --local --json | jq '.[0].root_pid')

REPLICAS are those that run, of all; GPUS those that a launch has, or 0 of those that it waits for.

TREE is the pid to name to --pre-dump and --dump. It is the program's own pid, or, if the program was
started by a launcher under phos (pos_cli run -- torchrun ...), the launcher's: then all programs of
the launcher have the same TREE, and are saved as one image. SAVED is the time since the last
checkpoint, IMAGE its directory. The states are those of --status.

--watch prints the tables again every 2 seconds, until Ctrl-C. --json prints an array: the objects
that --status --json has in programs, with the kind "program", and after them the launches, with the
kind "launch"; with --watch, one array per line.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options psOptions
		watch := flags.Bool("watch", false, "print the tables again every 2 seconds")
		flags.BoolVar(&options.asJSON, "json", false, "print JSON")
		flags.BoolVar(&options.local, "local", false, "only the programs of this machine")
		flags.BoolVar(&options.ended, "all", false, "with launches that have ended")
		flags.BoolVar(&options.ended, "a", false, "the same as --all")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if *watch {
				return watchPS(ctx, to, options)
			}
			return showPS(ctx, to, options, "")
		}
	},
}

// psOptions are the flags of ps.
type psOptions struct{ asJSON, local, ended bool }

// watchPS prints the tables until the context ends.
func watchPS(ctx context.Context, to verb.Streams, options psOptions) error {
	lead := ""
	if file, isFile := to.Out.(*os.File); isFile && terminal.IsTerminal(file) && !options.asJSON {
		lead = "\x1b[H\x1b[2J" // the cursor to the top, and an empty screen
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		if err := showPS(ctx, to, options, lead); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if lead == "" && !options.asJSON {
			lead = "\n"
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// psPatience is how long ps waits for the cluster before it shows only the programs.
const psPatience = 3 * time.Second

// showPS prints launches and programs once, after a text. A machine has a cluster, or phosd, or
// both.
func showPS(ctx context.Context, to verb.Streams, options psOptions, lead string) error {
	listed, inCluster, err := listLaunches(ctx, options)
	lost := err
	if err != nil && !errors.Is(err, cluster.ErrUnavailable) {
		return err
	}
	programs, err := fetchStatus(ctx)
	if lost != nil {
		if err != nil {
			return lost
		}
		fmt.Fprintf(to.Err, "warning: launches are not shown: %s\n", humanize.Error(lost))
		inCluster = false
	}
	noPhosd := errors.Is(err, api.ErrNoDaemon) && inCluster
	if err != nil && !noPhosd {
		return err
	}
	if inCluster {
		programs = programs.Without(ofLaunch)
	}
	if options.asJSON {
		return psJSON(to, programs, listed)
	}
	fmt.Fprint(to.Out, lead)
	if inCluster {
		if err := psLaunches(to, listed); err != nil || len(programs.Programs) == 0 {
			return err
		}
		fmt.Fprintln(to.Out)
	}
	return programs.PS(to.Out)
}

// listLaunches asks the cluster, if there is one.
func listLaunches(ctx context.Context, options psOptions) (listed []*cluster.Launch, inCluster bool, err error) {
	if options.local {
		return nil, false, nil
	}
	client, err := reach.ConnectWithin(psPatience)
	if errors.Is(err, reach.ErrNoCluster) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer client.Close()
	reply, err := client.Launches.List(ctx, &cluster.ListRequest{Ended: options.ended})
	return reply.GetLaunches(), true, err
}

// psLaunches prints the table of launches.
func psLaunches(to verb.Streams, listed []*cluster.Launch) error {
	if len(listed) == 0 {
		_, err := fmt.Fprintln(to.Out, "no launches; phos launch -- CMD makes one, and phos ps -a shows those that have ended")
		return err
	}
	return view.Launches(to.Out, listed, time.Now())
}

// psJSON prints programs and launches as one array.
func psJSON(to verb.Streams, programs status.View, listed []*cluster.Launch) error {
	all := programs.Kinds("program")
	for _, each := range listed {
		object := view.Object(each)
		object["kind"] = "launch"
		all = append(all, object)
	}
	return view.Line(to.Out, all)
}

// ofLaunch reports whether a process belongs to a launch, by its environment. Of a process that
// this caller may not read, that is not known.
func ofLaunch(pid uint32) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(variable []byte) bool {
		return bytes.HasPrefix(variable, []byte("PHOS_LAUNCH_ID="))
	})
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
