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
--json it prints one object: dir, dry_run, directory (false), generations, packs and bytes.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		dir := flags.String("dir", "", "`DIR` of the image")
		dryRun := flags.Bool("dry-run", false, "print what would be removed, and remove nothing")
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, _ []string) error {
			if *dir == "" {
				return &verb.UsageError{Text: "name the image's directory: --dir DIR"}
			}
			return imagecmd.Clean(
				ctx, imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}, *dir, imagecmd.CleanOptions{DryRun: *dryRun},
			)
		}
	},
}

var rmVerb = verb.Verb{
	Name: "rm", Word: true,
	Arguments: "DIR",
	Summary:   "remove an image that no program needs",
	About: `Removes the image in a directory, as --clean does, and the directory, if it is like those that
checkpoints make: the caller's, with mode 0700. Another one stays, empty. It refuses if a running
program was last saved there, or if a policy saves one there.

    pos_cli images
    pos_cli rm /data/ckpt
    pos_cli rm /data/ckpt --force      also the image of a program that runs

What --force never does: remove anything that is not phos's, or an image that a checkpoint, a restore
or another command is using. A program whose image is removed runs on, and its policy
begins a new image. With --json it prints the object of --clean; directory says whether the
directory was removed.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		force := flags.Bool("force", false, "remove it even if a running program was last saved there")
		dryRun := flags.Bool("dry-run", false, "print what would be removed, and remove nothing")
		return imageCommand(flags, func(ctx context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Clean(ctx, out, dir, imagecmd.CleanOptions{DryRun: *dryRun, Unused: !*force, Directory: true})
		})
	},
}
