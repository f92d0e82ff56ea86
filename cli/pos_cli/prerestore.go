package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"google.golang.org/grpc"

	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/launch"
	"github.com/phos-gpu/phos/cli/terminal"
	"github.com/phos-gpu/phos/cli/verb"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/api/fdtoken"
)

var preRestoreVerb = verb.Verb{
	Name:      "pre-restore",
	Arguments: "--dir DIR",
	Summary:   "make the next restore of an image fast",
	About: `Prepares an image: starts its workers and loads its memory, so that the next --restore of it is
fast. The prepared image holds that memory until it is restored, or until --cancel releases it. With
--gpus, give the same list to --restore and to --cancel.

    pos_cli --pre-restore --dir /data/ckpt
    pos_cli --restore --dir /data/ckpt`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options preRestoreOptions
		flags.StringVar(&options.dir, "dir", "", "`DIR` of the image")
		flags.Uint64Var(&options.generation, "generation", 0, "the `N`th generation; 0: the newest")
		flags.StringVar(&options.gpus, "gpus", "", gpusUsage)
		flags.BoolVar(&options.trustSeal, "trust-seal", false, trustSealUsage)
		flags.BoolVar(&options.cancel, "cancel", false, "release what was prepared")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if options.dir == "" {
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			}
			return preRestore(ctx, to, options)
		}
	},
}

type preRestoreOptions struct {
	dir        string
	generation uint64
	cancel     bool
	trustSeal  bool
	gpus       string
}

// preRestore prepares an image, or cancels that. An interrupt releases what was prepared.
func preRestore(ctx context.Context, to verb.Streams, options preRestoreOptions) error {
	client, err := api.Dial(api.Socket())
	if err != nil {
		return err
	}
	defer client.Close()
	dir, err := imagecmd.OpenDirectory(options.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	events, err := options.request(ctx, client, dir)
	if err != nil {
		return err
	}
	loaded, err := followLoad(terminal.NewBar(to.Err), events.Recv)
	switch {
	case err != nil && ctx.Err() != nil && !options.cancel:
		return cancelPreRestore(client, dir, options)
	case err != nil:
		return err
	case options.cancel:
		_, err = fmt.Fprintln(to.Out, "the image is no longer prepared")
	case loaded != nil:
		_, err = fmt.Fprintf(
			to.Out,
			"ready: %s loaded in %s\n",
			humanize.Bytes(loaded.GetBytes()),
			humanize.Microseconds(loaded.GetTotalMicroseconds()),
		)
	default:
		_, err = fmt.Fprintln(to.Out, "ready")
	}
	return err
}

// request hands the directory off and asks phosd to prepare the image in it, or to release it.
func (o preRestoreOptions) request(
	ctx context.Context,
	client *api.Client,
	dir *os.File,
) (grpc.ServerStreamingClient[api.RestoreEvent], error) {
	gpus, err := launch.Ordinals(ctx, client, o.gpus)
	if err != nil {
		return nil, err
	}
	token, err := fdtoken.Send(ctx, api.Socket(), []*os.File{dir})
	if err != nil {
		return nil, err
	}
	events, err := client.Daemon.PreRestore(
		ctx,
		&api.PreRestoreRequest{
			Files: token, Generation: o.generation, Cancel: o.cancel, TrustSeal: o.trustSeal, Gpus: gpus,
		},
	)
	return events, api.FromStatus(err)
}

// cancelPreRestore undoes a pre-restore that a signal interrupted, and waits until phosd has done
// it.
func cancelPreRestore(client *api.Client, dir *os.File, options preRestoreOptions) error {
	again, stop := signal.NotifyContext(context.Background(), handledSignals()...)
	defer stop()
	options.cancel = true
	events, err := options.request(again, client, dir)
	if err == nil {
		_, err = events.Recv()
	}
	switch {
	case again.Err() != nil:
		return fmt.Errorf("%w: phosd releases what was prepared", errAbandoned)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("cancelled, but what was prepared is not released: %w", api.FromStatus(err))
	}
	return errors.New("cancelled: the image is not prepared")
}

// followLoad shows progress until the stream ends.
func followLoad(bar *terminal.Bar, receive func() (*api.RestoreEvent, error)) (loaded *api.RestoreLoaded, err error) {
	defer bar.Clear()
	for {
		event, err := receive()
		if errors.Is(err, io.EOF) {
			return loaded, nil
		}
		if err != nil {
			return nil, api.FromStatus(err)
		}
		showRestore(bar, event)
		if event.GetLoaded() != nil {
			loaded = event.GetLoaded()
		}
	}
}

// showRestore shows the progress and the notice of an event.
func showRestore(bar *terminal.Bar, event *api.RestoreEvent) {
	if step := event.GetStep(); step != nil {
		bar.Step(terminal.PhaseText(step.GetPhase()), step.GetDoneBytes(), step.GetTotalBytes())
	}
	if event.GetNotice() != "" {
		bar.Say(humanize.Printable(event.GetNotice()))
	}
}
