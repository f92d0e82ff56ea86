package main

import (
	"context"
	"flag"

	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/verb"
)

var cleanVerb = verb.Verb{
	Name:      "clean",
	Arguments: "--dir DIR",
	Summary:   "remove an image",
	About: `Removes the image in a directory: all generations, and what interrupted checkpoints left there. The
directory itself stays, empty. Nothing is removed if the directory holds anything else or no image,
or if a checkpoint, a restore, a --pre-restore or another command uses the image. Running programs
that were restored from it are not affected.

    pos_cli --clean --dir /data/ckpt --dry-run
    pos_cli --clean --dir /data/ckpt

It works without phosd, with the rights of the caller. If it is interrupted, run it again. With
--json it prints one object: dir, dry_run, generations, packs and bytes.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		dir := flags.String("dir", "", "`DIR` of the image")
		dryRun := flags.Bool("dry-run", false, "print what would be removed, and remove nothing")
		asJSON := flags.Bool("json", false, "print JSON")
		return func(_ context.Context, to verb.Streams, _ []string) error {
			if *dir == "" {
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			}
			return imagecmd.Clean(imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}, *dir, *dryRun)
		}
	},
}
