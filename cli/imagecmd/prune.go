package imagecmd

import (
	"context"
	"errors"
	"fmt"

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
	store.Cleaned
}

// CleanOptions say what is removed.
type CleanOptions struct {
	DryRun bool
	// Unused refuses to remove the image of a program that runs.
	Unused bool
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
	if out.JSON {
		return out.json(cleanView{path, dryRun, done})
	}
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	_, err = fmt.Fprintf(
		out.Out,
		"%s: %s %s, %s, %s\n",
		path,
		verb,
		humanize.Count(len(done.Generations), "generation", "generations"),
		humanize.Count(done.Packs, "pack", "packs"),
		humanize.Bytes(done.Bytes),
	)
	return err
}
