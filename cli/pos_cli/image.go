package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/verb"
)

var imageVerb = verb.Group(
	"image",
	"list|show|check|verify|diff|prune DIR, key",
	"inspect, check and prune checkpoint images",
	`An image is a directory that --pre-dump and --dump write and --restore reads. Each checkpoint adds a
generation; generations share unchanged data. FORMAT.md describes every byte.

    pos_cli image list /data/ckpt          list its generations
    pos_cli image show /data/ckpt          show everything about the newest generation
    pos_cli image check /data/ckpt         can it be restored here, and if not, why
    pos_cli image verify /data/ckpt        read every byte, and report damage
    pos_cli image diff /data/ckpt          show what changed between the two newest generations
    pos_cli image prune /data/ckpt --keep 3
    pos_cli image key list                 list the machines whose images may be restored here
    pos_cli images                         list all images
    pos_cli rm /data/ckpt                  remove the whole image

All except check and key work without phosd, on any machine, with the rights of the caller. Each
takes --json.`,
)

var imageListVerb = verb.Verb{
	Name: "image list", Word: true,
	Arguments: "DIR",
	Summary:   "list the generations of an image",
	About: `Lists the generations of an image, the oldest first, with the bytes that each wrote and the bytes
that it shares with older ones, and the disk space of the image. A generation that cannot be
restored says so in its row: partial (made with --target or --skip-target) or damaged.

    pos_cli image list /data/ckpt
    pos_cli image list /data/ckpt --json | jq '.generations[-1].created'

With --json it prints one object: dir, store (the image's random id), format, packs, bytes (disk
space), needed_bytes (bytes that the generations need, null if some are missing) and generations,
each with generation, created, phos, host, owner_uid, owner, pid, command, processes, gpu_processes,
memory_bytes, pinned_bytes, cpu_bytes, written_bytes, shared_bytes, pause_microseconds, kinds (of a
partial image), group, and damage (why its manifest cannot be read; the other fields are empty
then).`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return imageCommand(
			flags,
			func(_ context.Context, out imagecmd.Output, dir string) error { return imagecmd.List(out, dir) },
		)
	},
}

var imageShowVerb = verb.Verb{
	Name: "image show", Word: true,
	Arguments: "DIR",
	Summary:   "show everything about a generation",
	About: `Shows one generation of an image: when and where it was made, its processes with their GPU memory
and objects, its files, and the terminals and pipes that a restore connects again.

    pos_cli image show /data/ckpt
    pos_cli image show /data/ckpt --generation 2 --json | jq '.manifest.processes[].pid'

With --json it prints one object: dir, store, format, generation, bytes, seal (version, owner_uid
and key, the id of the key that sealed it; only phosd can verify the seal) and manifest: the image's
own manifest, unchanged, with every field. FORMAT.md describes it by its version.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		generation := flags.Uint64("generation", 0, "the `N`th generation; 0: the newest")
		return imageCommand(flags, func(_ context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Show(out, dir, *generation)
		})
	},
}

var imageCheckVerb = verb.Verb{
	Name: "image check", Word: true,
	Arguments: "DIR",
	Summary:   "check whether an image can be restored here, and if not, why",
	About: `Asks phosd whether the image could be restored on this machine, by this user, now. Every obstacle is
listed, with what to do about it. Nothing is started. The contents are not read: see pos_cli image
verify.

    pos_cli image check /data/ckpt && pos_cli --restore --dir /data/ckpt

The exit status is 1 if an obstacle prevents a restore. With --json it prints one object: dir,
generation, restorable, obstacles, each with subject, reason, remedy (may be empty) and harmless
(true: it does not prevent a restore), and files.

Files that the program had open for writing may have changed since the checkpoint. Those are listed
with what a restore does with them (see pos_cli --restore). In JSON, files has all of them, each with
path, change (unchanged, missing, grown, modified, replaced), action (restore, copy and restore,
keep, refuse) and reason (empty: nothing has changed).`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		generation := flags.Uint64("generation", 0, "the `N`th generation; 0: the newest")
		newPIDs := flags.Bool("new-pids", false, "check a restore with --new-pids")
		var files filesPolicy
		flags.Func("files", filesUsage, files.set)
		trustSeal := flags.Bool("trust-seal", false, trustSealUsage)
		gpus := flags.String("gpus", "", "check a restore onto this `LIST` of GPUs")
		return imageCommand(flags, func(ctx context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Check(ctx, out, dir, imagecmd.CheckOptions{
				Generation: *generation, NewPIDs: *newPIDs, TrustSeal: *trustSeal, Files: string(files), GPUs: *gpus,
			})
		})
	},
}

var imageVerifyVerb = verb.Verb{
	Name: "image verify", Word: true,
	Arguments: "DIR",
	Summary:   "read an image and check every byte of it",
	About: `Reads a whole image and compares it with its checksums. Every damaged file is listed, with the kind
of damage, its offset, and the generations and processes that need the lost data. Data that another
file also has is not lost.

    pos_cli image verify /data/ckpt

The exit status is 1 if anything is damaged. Generations that do not need the damaged data can still
be restored, and the next checkpoint into the directory writes the missing data again. Seals are not
checked: see pos_cli image check.

With --json it prints one object: dir, generations, packs, contents, bytes, good_generations,
bad_generations and problems, each with file (within the directory), what, and touches: generation
and parts ("gpu of pid 12, gpu0", "cpu, 12/pages-1.img", "file /data/log").`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		return imageCommand(flags, imagecmd.Verify)
	},
}

var imageDiffVerb = verb.Verb{
	Name: "image diff", Word: true,
	Arguments: "DIR",
	Summary:   "show what changed between two generations",
	About: `Compares two generations of an image, by default the two newest: the bytes of GPU memory, of the CPU
half and of saved files that changed and that did not, then the changed processes, memory, files and
objects. It compares the hashes of whole chunks of 2 MiB; no content is read.

    pos_cli image diff /data/ckpt
    pos_cli image diff /data/ckpt --from 1 --to 5 --json | jq .totals.gpu.changed_bytes

With --json it prints one object: dir, from, to, totals (gpu, cpu, files: bytes_before, bytes_after,
changed_bytes, shared_bytes), processes (pid, command, change, memory with address ranges, files,
objects before and after), cpu and files (name, change, bytes_before, bytes_after, changed_bytes). A
change is added, removed or changed.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		from := flags.Uint64("from", 0, "the `N`th generation; 0: the one before --to")
		to := flags.Uint64("to", 0, "the `N`th generation; 0: the newest")
		all := flags.Bool("all", false, "list every changed range of memory")
		return imageCommand(flags, func(ctx context.Context, out imagecmd.Output, dir string) error {
			return imagecmd.Diff(ctx, out, dir, imagecmd.DiffOptions{From: *from, To: *to, All: *all})
		})
	},
}

var imageKeyVerb = verb.Verb{
	Name: "image key", Word: true,
	Arguments: "export | list | import NAME | forget NAME",
	Summary:   "let users restore images from other machines",
	About: `phosd seals each image with the key of its machine, for the owner of the program. It restores for a
user only images that were sealed for that user, by this machine or by a machine whose key root has
imported. Root may restore any image.

    ssh node1 pos_cli image key export | pos_cli image key import node1
    pos_cli image key list
    pos_cli image key forget node1

A key is a secret of root. It allows making images that are restored as any user, including root, on
every machine that has imported it. Import only keys of machines whose root you trust as you trust
this one's. With --json, list prints an array of names.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, words []string) error {
			out := imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}
			switch {
			case len(words) == 1 && words[0] == "export":
				return imagecmd.ExportKey(ctx, out)
			case len(words) == 1 && words[0] == "list":
				return imagecmd.ListKeys(ctx, out)
			case len(words) == 2 && words[0] == "import":
				return imagecmd.ImportKey(ctx, out, os.Stdin, words[1])
			case len(words) == 2 && words[0] == "forget":
				return imagecmd.RemoveKey(ctx, out, words[1])
			}
			return &verb.UsageError{Text: "choose export, list, import NAME or forget NAME"}
		}
	},
}

// imageCommand registers --json and returns a function that runs act on the named directory.
func imageCommand(
	flags *flag.FlagSet,
	act func(context.Context, imagecmd.Output, string) error,
) func(context.Context, verb.Streams, []string) error {
	asJSON := flags.Bool("json", false, "print JSON, and no progress")
	return func(ctx context.Context, to verb.Streams, arguments []string) error {
		if len(arguments) != 1 {
			return &verb.UsageError{
				Text: fmt.Sprintf(
					"name the image's directory, and nothing else; see: pos_cli help %s",
					strings.TrimPrefix(flags.Name(), "pos_cli "),
				),
			}
		}
		return act(ctx, imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}, arguments[0])
	}
}
