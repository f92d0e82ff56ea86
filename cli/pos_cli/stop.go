package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/cluster/daemons"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

var stopVerb = verb.Verb{
	Name:    "stop",
	Summary: "stop phosd, or a cluster's daemons",
	About: `Stops phosd. While programs run, it refuses and names one of them. With --force their sessions end
first, and every CUDA call that they make from then on fails.

To update phosd, end it by a signal instead: programs keep running, and the next phosd adopts them.
Programs whose checkpoint policy has "on: [exit-signal]" are saved first, and keep running.

With --drain every program is saved and then stopped. A program whose checkpoint policy has "on:
[drain]" is saved in the directory of its policy; any other in a directory of its own below --dir,
grouped by user. If a program has no such directory, or cannot be saved, phosd and that program keep
running; with --force the program's session ends instead. Ctrl-C stops draining: programs whose
images are not complete keep running.

With --target agent the agent of this machine is stopped, and with --target cluster its controller
too. Processes of launches go on, and so does phosd: the next agent finds them again. Without an
agent the node is shown as unreachable, and after fence_after its launches are stopped.

    pos_cli --stop
    pos_cli --stop --target cluster
    pos_cli --stop --drain --dir /data/drained
    pos_cli --stop --force`,
	Values: map[string][]string{"target": daemons.Targets},
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options stopOptions
		target := flags.String("target", daemons.Daemon, "`WHAT` to stop: daemon, cluster or agent")
		flags.BoolVar(&options.force, "force", false, "end the sessions of running programs")
		flags.BoolVar(&options.drain, "drain", false, "save running programs, then stop them")
		flags.StringVar(&options.dir, "dir", "", "`DIR` for the images of programs without a policy; with --drain")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if options.dir != "" && !options.drain {
				return &verb.UsageError{Text: "--dir needs --drain"}
			}
			if err := daemons.CheckTarget(*target); err != nil {
				return err
			}
			if *target != daemons.Daemon {
				if options != (stopOptions{}) {
					return &verb.UsageError{Text: "--force, --drain and --dir are about phosd; phos node drain drains a node"}
				}
				return daemons.Stop(ctx, to, *target)
			}
			return stop(ctx, to, options)
		}
	},
}

type stopOptions struct {
	force, drain bool
	dir          string
}

// begin builds the request and hands the directory off to phosd.
func (o *stopOptions) begin(ctx context.Context) (*api.StopRequest, error) {
	request := &api.StopRequest{Force: o.force, Drain: o.drain}
	if o.dir == "" {
		return request, nil
	}
	dir, _, err := makeDirectory(o.dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	request.Files, err = fdtoken.Send(ctx, api.Socket(), []*os.File{dir})
	return request, err
}

func stop(ctx context.Context, to verb.Streams, options stopOptions) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	request, err := options.begin(ctx)
	if err != nil {
		return err
	}
	reply, err := client.Daemon.Stop(ctx, request)
	if err != nil {
		return err
	}
	for _, program := range reply.GetDrained() {
		fmt.Fprintf(
			to.Out,
			"saved and stopped pid %d (%s, %s): %s, generation %d\n",
			program.GetPid(),
			program.GetUser(),
			humanize.Printable(
				program.GetCommand(),
			),
			humanize.Printable(program.GetCheckpointDir()),
			program.GetCheckpointGeneration(),
		)
	}
	for _, program := range reply.GetEnded() {
		fmt.Fprintf(
			to.Out,
			"ended the session of pid %d (%s, %s)\n",
			program.GetPid(),
			program.GetUser(),
			humanize.Printable(program.GetCommand()),
		)
	}
	if err := waitGone(ctx, api.Socket()); err != nil {
		return err
	}
	fmt.Fprintln(to.Out, "phosd has stopped")
	return nil
}

// waitGone waits until phosd has removed its socket: from then on another phosd can be started.
func waitGone(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		if _, err := os.Lstat(socket); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("phosd agreed to stop, but %s is still there", socket)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
