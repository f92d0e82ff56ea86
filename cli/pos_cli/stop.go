package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

var stopVerb = verb.Verb{
	Name:    "stop",
	Summary: "stop phosd",
	About: `Stops phosd. While programs run it refuses and names one; with --force their sessions end first, and every
CUDA call they make from then on fails. (A phosd that is ended by a signal leaves programs running, for
the next phosd to adopt: that is how to update it. Programs whose checkpoint policy says "on: [exit-signal]" are saved then,
and run on.)

With --drain every program is saved first, and stopped once its image is complete: where its checkpoint policy says so, if that
says "on: [drain]", else in a directory for itself below --dir, in one for its user. When there is one that has no such place, or
cannot be saved, phosd goes on, and so does that program; with --force its session ends. Ctrl-C stops the draining: programs
that are not complete run on.

    pos_cli --stop
    pos_cli --stop --drain --dir /data/drained
    pos_cli --stop --force`,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options stopOptions
		flags.BoolVar(&options.force, "force", false, "end the sessions of running programs")
		flags.BoolVar(&options.drain, "drain", false, "save running programs and stop them")
		flags.StringVar(&options.dir, "dir", "", "`DIR` for the images of programs that have no policy, with --drain")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if options.dir != "" && !options.drain {
				return &verb.UsageError{Text: "--dir is for --drain"}
			}
			return stop(ctx, to, options)
		}
	},
}

type stopOptions struct {
	force, drain bool
	dir          string
}

// begin is the request, with the directory handed over.
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

// waitGone returns when phosd has closed its socket: from then on another can be started.
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
