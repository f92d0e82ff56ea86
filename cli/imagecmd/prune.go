package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/cli/humanize"
)

// PruneOptions choose what to keep: the newest Keep, or all except Remove.
type PruneOptions struct {
	Keep   uint
	Remove []uint64
	DryRun bool
}

type pruneView struct {
	Dir    string `json:"dir"`
	DryRun bool   `json:"dry_run"`
	*store.Pruned
}

// Prune removes generations of an image.
func Prune(ctx context.Context, out Output, path string, options PruneOptions) error {
	d, err := openImage(path)
	if err != nil {
		return err
	}
	defer d.Close()
	keep := store.Keep{
		Newest:   int(min(options.Keep, 1<<30)),
		AllBut:   options.Remove,
		Progress: progress(out, "rewrite"),
	}
	act, text := d.Prune, "%s: removed %s, kept %s, freed %s\n"
	if options.DryRun {
		act, text = d.PlanPrune, "%s: would remove %s, keep %s, and free about %s\n"
	}
	done, err := act(ctx, keep)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf(
			"cancelled: some of the generations may be removed already; the others are complete, "+
				"and the command may be repeated (%w)",
			ctx.Err(),
		)
	case errors.Is(err, contents.ErrMissing):
		return fmt.Errorf("%w; see: pos_cli image verify %s", err, path)
	case err != nil:
		return err
	}
	if out.JSON {
		return out.json(pruneView{path, options.DryRun, done})
	}
	if done.Damage != "" {
		fmt.Fprintf(
			out.Err,
			"some packs are kept as they are because they are damaged: %s; see: pos_cli image verify %s\n",
			humanize.Printable(done.Damage),
			path,
		)
	}
	if len(done.Removed) == 0 {
		_, err = fmt.Fprintf(out.Out, "%s: nothing to remove; it has %s\n", path, generationsText(done.Kept))
		return err
	}
	_, err = fmt.Fprintf(
		out.Out,
		text,
		path,
		generationsText(done.Removed),
		generationsText(done.Kept),
		humanize.Bytes(done.FreedBytes),
	)
	return err
}

type cleanView struct {
	Dir    string `json:"dir"`
	DryRun bool   `json:"dry_run"`
	// Directory is set if the directory itself is removed, too.
	Directory bool `json:"directory"`
	store.Cleaned
}

// CleanOptions say what is removed.
type CleanOptions struct {
	DryRun bool
	// Unused refuses to remove the image of a program that runs.
	Unused bool
	// Directory removes the empty directory, too, if it is one that a checkpoint would make again.
	Directory bool
}

// Clean removes an image.
func Clean(ctx context.Context, out Output, path string, options CleanOptions) error {
	dir, err := OpenDirectory(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if options.Unused {
		if err := checkUnused(ctx, dir); err != nil {
			return err
		}
	}
	dryRun := options.DryRun
	act := store.Remove
	if dryRun {
		act = store.PlanRemove
	}
	done, err := act(dir)
	if err != nil {
		return err
	}
	if done.Generations == nil {
		done.Generations = []uint64{}
	}
	whole := options.Directory && madeByPhos(dir, path)
	if whole && !dryRun {
		// It stays where its user may not remove it, and where something new is in it.
		whole = unix.Rmdir(path) == nil
	}
	if out.JSON {
		return out.json(cleanView{path, dryRun, whole, done})
	}
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	also := ""
	if whole {
		also = ", and the directory"
	}
	_, err = fmt.Fprintf(
		out.Out,
		"%s: %s %s, %s, %s%s\n",
		path,
		verb,
		humanize.Count(len(done.Generations), "generation", "generations"),
		humanize.Count(done.Packs, "pack", "packs"),
		humanize.Bytes(done.Bytes),
		also,
	)
	return err
}

// madeByPhos reports whether a directory is like those that a checkpoint makes: of the caller,
// private, and not reached by a link. The next checkpoint makes the same one again; of any other,
// owner, mode or place were chosen.
func madeByPhos(dir *os.File, path string) bool {
	var open, named unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &open) == nil && unix.Lstat(path, &named) == nil &&
		open.Dev == named.Dev && open.Ino == named.Ino &&
		open.Mode&0o7777 == 0o700 && open.Uid == uint32(os.Geteuid())
}
