package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/launches"
	"github.com/phos-gpu/phos/cli/cluster/reach"
	"github.com/phos-gpu/phos/cli/cluster/view"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/status"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	cluster "github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/ticks"
)

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

--watch prints the tables again when a launch has changed, and every 2 seconds, until Ctrl-C. --json prints an array: the objects
that --status --json has in programs, with the kind "program", and after them the launches, with the
kind "launch"; with --watch, one array per line.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options psOptions
		watch := flags.Bool("watch", false, "print the tables again after each change")
		flags.BoolVar(&options.asJSON, "json", false, "print JSON")
		flags.BoolVar(&options.local, "local", false, "only the programs of this machine")
		flags.BoolVar(&options.ended, "all", false, "with launches that have ended")
		flags.BoolVar(&options.ended, "a", false, "the same as --all")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if *watch {
				return watchPS(ctx, to, options, watchEvery)
			}
			listed, err := listLaunches(ctx, options)
			if err != nil {
				return err
			}
			return showPS(ctx, to, options, listed, "")
		}
	},
}

// psOptions are the flags of ps.
type psOptions struct{ asJSON, local, ended bool }

const (
	// watchEvery is the time after which --watch prints the tables without a change of launches: phosd
	// has no stream of programs, and the tables have ages.
	watchEvery = 2 * time.Second
	// drawEvery is the least time between two tables. Changes within it are shown by one of them.
	drawEvery = 250 * time.Millisecond
)

// watchPS prints the tables at first, after changes of launches, and at intervals, until the
// context ends.
func watchPS(ctx context.Context, to verb.Streams, options psOptions, every time.Duration) error {
	lead := ""
	if file, isFile := to.Out.(*os.File); isFile && terminal.IsTerminal(file) && !options.asJSON {
		lead = "\x1b[H\x1b[2J" // the cursor to the top, and an empty screen
	}
	client, err := connectPS(options)
	if err != nil {
		return err
	}
	f := &launches.Followed{}
	if client != nil {
		defer client.Close()
		var stop func()
		f, stop = launches.Follow(ctx, client, &cluster.ListRequest{Ended: options.ended})
		defer stop()
	}
	for {
		if err := showPS(ctx, to, options, f.Now(), lead); err != nil && ctx.Err() == nil {
			return err
		}
		if lead == "" && !options.asJSON {
			lead = "\n"
		}
		select {
		case <-time.After(every):
		case <-f.Changed:
		case <-ctx.Done():
			return nil
		}
		if ticks.Pause(ctx, drawEvery) != nil {
			return nil
		}
	}
}

// psPatience is how long ps waits for the cluster before it shows only the programs.
const psPatience = 3 * time.Second

// lostWarning says that launches are missing or old; empty: they are not.
func lostWarning(l launches.Listed) string {
	switch {
	case l.Lost == nil:
		return ""
	case l.Known:
		return fmt.Sprintf("warning: launches are shown as they were: %s\n", humanize.Error(l.Lost))
	}
	return fmt.Sprintf("warning: launches are not shown: %s\n", humanize.Error(l.Lost))
}

// showPS prints launches and programs once, after a text. A machine has a cluster, or phosd, or
// both.
func showPS(ctx context.Context, to verb.Streams, options psOptions, listed launches.Listed, lead string) error {
	if listed.Lost != nil && !errors.Is(listed.Lost, cluster.ErrUnavailable) {
		return listed.Lost
	}
	programs, err := fetchStatus(ctx)
	if err != nil && !(errors.Is(err, api.ErrNoDaemon) && listed.Known) {
		return cmp.Or(listed.Lost, err)
	}
	if listed.Known {
		programs = programs.Without(ofLaunch)
	}
	if options.asJSON {
		fmt.Fprint(to.Err, lostWarning(listed))
		return psJSON(to, programs, listed.Launches)
	}
	fmt.Fprint(to.Out, lead)
	fmt.Fprint(to.Err, lostWarning(listed))
	if listed.Known {
		if err := launchTable(to, listed.Launches); err != nil || len(programs.Programs) == 0 {
			return err
		}
		fmt.Fprintln(to.Out)
	}
	return programs.PS(to.Out)
}

// connectPS connects to the cluster; a nil client: there is none to ask.
func connectPS(options psOptions) (*cluster.Client, error) {
	if options.local {
		return nil, nil
	}
	client, err := reach.ConnectWithin(psPatience)
	if errors.Is(err, reach.ErrNoCluster) {
		return nil, nil
	}
	return client, err
}

// listLaunches asks the cluster, if there is one.
func listLaunches(ctx context.Context, options psOptions) (listed launches.Listed, err error) {
	client, err := connectPS(options)
	if client == nil {
		return launches.Listed{}, err
	}
	defer client.Close()
	reply, err := client.Launches.List(ctx, &cluster.ListRequest{Ended: options.ended})
	return launches.Listed{Launches: reply.GetLaunches(), Known: err == nil, Lost: err}, nil
}

// launchTable prints the table of launches.
func launchTable(to verb.Streams, listed []*cluster.Launch) error {
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
