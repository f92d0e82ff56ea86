package imagecmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/cli/humanize"
	"github.com/phos-gpu/phos/cli/terminal"
)

// ErrDamaged is returned if an image is not as it was written.
var ErrDamaged = errors.New("damaged")

// verifyView is what verify --json prints. Scripts read it: fields may be added, never renamed or
// removed.
type verifyView struct {
	Dir string `json:"dir"`
	store.Verified
	GoodGenerations []uint64 `json:"good_generations"`
	BadGenerations  []uint64 `json:"bad_generations"`
}

// Verify reads the whole image and prints what is damaged.
func Verify(ctx context.Context, out Output, path string) error {
	d, err := openImage(path)
	if err != nil {
		return err
	}
	defer d.Close()
	found, err := d.Verify(ctx, progress(out, "verify"))
	if ctx.Err() != nil {
		return errors.New("cancelled: the image was not read to the end")
	}
	if err != nil {
		return err
	}
	all, err := d.Generations()
	if err != nil {
		return err
	}
	view := verifyView{Dir: path, Verified: *found, GoodGenerations: []uint64{}, BadGenerations: []uint64{}}
	if view.Problems == nil {
		view.Problems = []store.Problem{}
	}
	bad := badGenerations(found.Problems)
	for _, n := range all {
		if bad[n] {
			view.BadGenerations = append(view.BadGenerations, n)
		} else {
			view.GoodGenerations = append(view.GoodGenerations, n)
		}
	}
	if out.JSON {
		err = out.json(view)
	} else {
		err = view.text(out)
	}
	if err == nil && len(found.Problems) > 0 {
		err = view.damageError()
	}
	return err
}

// progress returns a function that shows progress, and erases the bar at the end.
func progress(out Output, phase string) func(done, total uint64) {
	if out.JSON {
		return nil
	}
	var mu sync.Mutex // guards bar: several goroutines call the function
	bar := terminal.NewBar(out.Err)
	return func(done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		bar.Step(phase, done, total)
		if done >= total {
			bar.Clear()
		}
	}
}

// badGenerations returns the generations that need lost data, or whose own file is damaged.
func badGenerations(problems []store.Problem) map[uint64]bool {
	bad := map[uint64]bool{}
	for _, problem := range problems {
		for _, touch := range problem.Touches {
			bad[touch.Generation] = true
		}
		if n, ok := store.GenerationOf(problem.File); ok {
			bad[n] = true
		}
	}
	return bad
}

// maxPerFile is how many problems of a file are listed.
const maxPerFile = 5

// text prints the problems by file, with the generations that need the lost data.
func (v *verifyView) text(out Output) error {
	if len(v.Problems) == 0 {
		_, err := fmt.Fprintf(
			out.Out,
			"%s: %s, %s, %s, %s: no damage\n",
			v.Dir,
			humanize.Count(v.Generations, "generation", "generations"),
			humanize.Count(v.Packs, "pack", "packs"),
			humanize.Count(v.Contents, "content", "contents"),
			humanize.Bytes(v.Bytes),
		)
		return err
	}
	byFile := map[string][]store.Problem{}
	for _, problem := range v.Problems {
		byFile[problem.File] = append(byFile[problem.File], problem)
	}
	var text strings.Builder
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		fmt.Fprintf(&text, "%s/%s\n", humanize.Printable(v.Dir), humanize.Printable(file))
		touched := map[uint64][]string{}
		for i, problem := range byFile[file] {
			if i < maxPerFile {
				fmt.Fprintf(&text, "    %s\n", humanize.Printable(problem.What))
			}
			for _, touch := range problem.Touches {
				touched[touch.Generation] = append(touched[touch.Generation], touch.Parts...)
			}
		}
		if more := len(byFile[file]) - maxPerFile; more > 0 {
			fmt.Fprintf(&text, "    and %d more\n", more)
		}
		for _, n := range slices.Sorted(maps.Keys(touched)) {
			parts := slices.Compact(slices.Sorted(slices.Values(touched[n])))
			fmt.Fprintf(&text, "    generation %d needs it: %s\n", n, humanize.Shorten(strings.Join(parts, "; "), 200))
		}
	}
	_, err := fmt.Fprint(out.Out, text.String())
	return err
}

// damageError says what is lost, and what to do.
func (v *verifyView) damageError() error {
	files := map[string]bool{}
	for _, problem := range v.Problems {
		files[problem.File] = true
	}
	what := fmt.Sprintf("%s: %s", v.Dir, humanize.Count(len(files), "file", "files"))
	switch {
	case len(v.BadGenerations) == 0:
		return fmt.Errorf("%s %w, but no generation needs the lost data: each can be restored", what, ErrDamaged)
	case len(v.GoodGenerations) == 0:
		return fmt.Errorf(
			"%s %w, and every generation needs the lost data: restore the files from a copy, or take a new checkpoint into "+
				"the directory, which writes the missing data again",
			what,
			ErrDamaged,
		)
	}
	last := v.GoodGenerations[len(v.GoodGenerations)-1]
	return fmt.Errorf(
		"%s %w: %s damaged; %s can be restored (--restore --generation %d), and a new checkpoint into the directory "+
			"writes the missing data again",
		what,
		ErrDamaged,
		generationsAre(v.BadGenerations),
		generationsText(v.GoodGenerations),
		last,
	)
}

// generationsAre returns generations with the verb: "generation 3 is", "generations 3 and 4 are".
func generationsAre(all []uint64) string {
	if len(all) == 1 {
		return generationsText(all) + " is"
	}
	return generationsText(all) + " are"
}
