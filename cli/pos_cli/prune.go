package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/verb"
)

var imagePruneVerb = verb.Verb{
	Name: "image prune", Word: true,
	Arguments: "DIR",
	Summary:   "remove old generations of an image",
	About: `Removes generations of an image, and what only they needed. Name either how many of the newest stay (--keep), or which
go (--generation, several times or separated by commas). What stays is looked at first: when something of it is
missing, nothing is removed. Packs of which little is needed are written again, which takes as much free space for a
while.

    pos_cli image prune /data/ckpt --keep 3 --dry-run
    pos_cli image prune /data/ckpt --keep 3
    pos_cli image prune /data/ckpt --generation 1,2

A restore that is under way is not disturbed. While a checkpoint is, nothing is removed: the command does not wait,
and says who has the image. Cut off at any moment, it may be called again. The last generation is removed with the
image: see pos_cli --clean.

With --json it prints one object: dir, dry_run, removed and kept (generations), packs_removed, packs_rewritten,
freed_bytes (an estimate with --dry-run), and damage when something was found on the way that could not be read.`,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options imagecmd.PruneOptions
		flags.UintVar(&options.Keep, "keep", 0, "keep the `N` newest generations")
		flags.Func("generation", "remove these `GENERATIONS`, separated by commas", func(value string) error {
			for text := range strings.SplitSeq(value, ",") {
				n, err := strconv.ParseUint(text, 10, 63)
				if err != nil || n == 0 {
					return fmt.Errorf("%q is no generation", text)
				}
				options.Remove = append(options.Remove, n)
			}
			return nil
		})
		flags.BoolVar(&options.DryRun, "dry-run", false, "say what would be removed, and remove nothing")
		run := imageCommand(flags, func(ctx context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Prune(ctx, out, dir, options)
		})
		return func(ctx context.Context, to verb.Streams, arguments []string) error {
			if (options.Keep == 0) == (len(options.Remove) == 0) {
				return &verb.UsageError{
					Text: "say either how many generations stay, --keep N, or which go, --generation N; the whole image goes with --clean --dir DIR",
				}
			}
			return run(ctx, to, arguments)
		}
	},
}

var cleanVerb = verb.Verb{
	Name:      "clean",
	Arguments: "--dir DIR",
	Summary:   "remove an image",
	About: `Removes the image in a directory, all generations of it, and what checkpoints that were cut off left there. The
directory itself stays, empty. Only what belongs to the image is removed: when anything else lies in the directory,
when it holds no image, or when a checkpoint, a restore, a --pre-restore or another command uses it, nothing is
removed. A program that was restored from it and runs does not miss it.

    pos_cli --clean --dir /data/ckpt --dry-run
    pos_cli --clean --dir /data/ckpt

It works without phosd, with the rights of the caller. Cut off at any moment, it may be called again. With --json it
prints one object: dir, dry_run, generations, packs and bytes.`,
	Prepare: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		dir := flags.String("dir", "", "`DIR` of the image")
		dryRun := flags.Bool("dry-run", false, "say what would be removed, and remove nothing")
		asJSON := flags.Bool("json", false, "print JSON")
		return func(_ context.Context, to verb.Streams, _ []string) error {
			if *dir == "" {
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			}
			return imagecmd.Clean(imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}, *dir, *dryRun)
		}
	},
}
