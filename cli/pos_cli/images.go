package main

import (
	"context"
	"flag"

	"github.com/phos-gpu/phos/cli/imagecmd"
	"github.com/phos-gpu/phos/cli/verb"
)

var imagesVerb = verb.Verb{
	Name: "images", Word: true,
	Arguments: "[DIR...]",
	Summary:   "list the images that you may read, and whether they can be restored here",
	About: `Lists images, the newest first: those that phosd knows, and those in and below the named directories.
phosd knows where running programs were last saved, the directories of their policies, and the
directory of the policy in phosd.toml, in which images stay when programs end.

    pos_cli images
    pos_cli images /data ~/ckpt
    pos_cli images --json | jq '.[] | select(.restorable) | .dir'

GENERATIONS is how many the image has, SIZE its disk space, AGE that of the newest generation. RESTORE
says whether the newest can be restored on this machine now: yes, no (the reason is below the table),
or --new-pids: only with that flag, because its pids are taken, for example by the program itself. A
dash means that no phosd could be asked. pos_cli image check has all reasons.

Directories are read with the rights of the caller, and those that the caller may not read are
skipped. Links below the named directories are not followed.

With --json it prints an array of objects: dir, owner, owner_uid, host, pid, command, created,
generations, bytes, restorable (null: no phosd), new_pids and reason. The exit status is 1 if a named
directory could not be searched.`,
	Setup: func(flags *flag.FlagSet) func(context.Context, verb.Streams, []string) error {
		asJSON := flags.Bool("json", false, "print JSON")
		return func(ctx context.Context, to verb.Streams, dirs []string) error {
			return imagecmd.Images(ctx, imagecmd.Output{Out: to.Out, Err: to.Err, JSON: *asJSON}, dirs)
		}
	},
}
