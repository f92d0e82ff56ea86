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
	About: `Removes generations of an image, and the data that only they need. Choose either how many of the
newest to keep (--keep), or which to remove (--generation, several times or separated by commas).
The remaining generations are checked first: if any of their data is missing, nothing is removed.
Packs of which little is still needed are rewritten, which temporarily takes as much free space.

    pos_cli image prune /data/ckpt --keep 3 --dry-run
    pos_cli image prune /data/ckpt --keep 3
    pos_cli image prune /data/ckpt --generation 1,2

A running restore is not disturbed. During a checkpoint nothing is removed: the command fails at
once and names the process that uses the image. If it is interrupted, run it again. To remove the
last generation, remove the image: see pos_cli --clean.

With --json it prints one object: dir, dry_run, removed and kept (generations), packs_removed,
packs_rewritten, freed_bytes (an estimate with --dry-run), and damage if some data could not be
read.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		var options imagecmd.PruneOptions
		flags.UintVar(&options.Keep, "keep", 0, "keep the `N` newest generations")
		flags.Func("generation", "remove these `GENERATIONS`, separated by commas", func(value string) error {
			for text := range strings.SplitSeq(value, ",") {
				n, err := strconv.ParseUint(text, 10, 63)
				if err != nil || n == 0 {
					return fmt.Errorf("%q is not a generation", text)
				}
				options.Remove = append(options.Remove, n)
			}
			return nil
		})
		flags.BoolVar(&options.DryRun, "dry-run", false, "print what would be removed, and remove nothing")
		run := imageCommand(flags, func(ctx context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Prune(ctx, out, dir, options)
		})
		return func(ctx context.Context, to verb.Streams, arguments []string) error {
			if (options.Keep == 0) == (len(options.Remove) == 0) {
				return &verb.UsageError{
					Text: "choose what to keep, --keep N, or what to remove, --generation N; " +
						"to remove the whole image: pos_cli --clean --dir DIR",
				}
			}
			return run(ctx, to, arguments)
		}
	},
}
