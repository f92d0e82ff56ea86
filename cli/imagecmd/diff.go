package imagecmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
)

// DiffOptions choose the generations to compare: To 0 is the newest, From 0 the one before To.
type DiffOptions struct {
	From, To uint64
	// All lists every changed range of memory.
	All bool
}

type diffView struct {
	Dir string `json:"dir"`
	*store.Difference
}

// Diff prints the differences between two generations.
func Diff(ctx context.Context, out Output, path string, options DiffOptions) error {
	d, err := openImage(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := options.setDefaults(d); err != nil {
		return err
	}
	found, err := d.Diff(ctx, options.From, options.To)
	if err != nil {
		return fmt.Errorf("%w; see: pos_cli image verify %s", err, path)
	}
	if out.JSON {
		return out.json(diffView{path, found})
	}
	to := out.table()
	fmt.Fprintf(to, "%s: from generation %d to generation %d\n\n", path, found.From, found.To)
	fmt.Fprintf(to, "KIND\tBEFORE\tAFTER\tCHANGED\tSHARED\n")
	for _, row := range []struct {
		kind string
		store.Total
	}{{"GPU", found.Totals.GPU}, {"CPU", found.Totals.CPU}, {"files", found.Totals.Files}} {
		fmt.Fprintf(
			to,
			"%s\t%s\t%s\t%s\t%s\n",
			row.kind,
			humanize.Bytes(row.BytesBefore),
			humanize.Bytes(row.BytesAfter),
			humanize.Bytes(row.ChangedBytes),
			humanize.Bytes(row.SharedBytes),
		)
	}
	if err := to.Flush(); err != nil {
		return err
	}
	var text strings.Builder
	for _, process := range found.Processes {
		fmt.Fprintf(&text, "\npid %d (%s): %s\n", process.PID, humanize.Shorten(process.Command, 40), process.Change)
		diffProcess(&text, process, options.All)
	}
	diffFiles(&text, "\nCPU half\n", found.CPU)
	diffFiles(&text, "\nsaved files\n", found.Files)
	_, err = io.WriteString(out.Out, text.String())
	return err
}

// setDefaults sets To to the newest generation and From to the one before To, where they are 0.
func (o *DiffOptions) setDefaults(d *store.Dir) error {
	all, err := d.Generations()
	if err != nil {
		return err
	}
	if o.To == 0 && len(all) > 0 {
		o.To = all[len(all)-1]
	}
	if o.From != 0 {
		return nil
	}
	at := slices.Index(all, o.To)
	if at < 1 {
		return fmt.Errorf(
			"%s: %w before generation %d to compare it with; the image has %s",
			d.Path(),
			store.ErrNoGeneration,
			o.To,
			humanize.Count(len(all), "generation", "generations"),
		)
	}
	o.From = all[at-1]
	return nil
}

// maxRanges is how many ranges of a memory are listed without --all.
const maxRanges = 8

// diffProcess prints what changed in a process; unless all is set, maxRanges ranges of a memory.
func diffProcess(to io.Writer, process store.ProcessDifference, all bool) {
	for _, memory := range process.Memory {
		fmt.Fprintf(
			to,
			"    %s: %s of %s in %s\n",
			humanize.Printable(memory.Name),
			humanize.Bytes(memory.ChangedBytes),
			humanize.Bytes(memory.TotalBytes),
			humanize.Count(len(memory.Ranges), "range", "ranges"),
		)
		for i, each := range memory.Ranges {
			if i == maxRanges && !all {
				fmt.Fprintf(to, "        and %d more; --all lists them\n", len(memory.Ranges)-i)
				break
			}
			fmt.Fprintf(to, "        %#x  %s  %s\n", each.Address, humanize.Bytes(each.Bytes), each.Change)
		}
	}
	for _, file := range process.Files {
		fmt.Fprintf(to, "    %s\n", fileText(file))
	}
	for _, kind := range slices.Sorted(maps.Keys(process.Objects)) {
		counts := process.Objects[kind]
		fmt.Fprintf(to, "    %s: %d before, %d after\n", humanize.Printable(kind), counts[0], counts[1])
	}
}

// diffFiles prints the changed files under a title; without any it prints nothing.
func diffFiles(to io.Writer, title string, files []store.FileDifference) {
	if len(files) > 0 {
		fmt.Fprint(to, title)
	}
	for _, file := range files {
		fmt.Fprintf(to, "    %s\n", fileText(file))
	}
}

// fileText returns the change of a file, with its sizes.
func fileText(f store.FileDifference) string {
	name := humanize.Printable(f.Name)
	switch f.Change {
	case store.Added:
		return fmt.Sprintf("%s: added, %s", name, humanize.Bytes(f.BytesAfter))
	case store.Removed:
		return fmt.Sprintf("%s: removed, %s", name, humanize.Bytes(f.BytesBefore))
	case store.Changed:
	}
	if f.BytesBefore != f.BytesAfter {
		return fmt.Sprintf(
			"%s: %s of it changed, %s before, %s after",
			name,
			humanize.Bytes(f.ChangedBytes),
			humanize.Bytes(f.BytesBefore),
			humanize.Bytes(f.BytesAfter),
		)
	}
	return fmt.Sprintf("%s: %s of %s changed", name, humanize.Bytes(f.ChangedBytes), humanize.Bytes(f.BytesAfter))
}
