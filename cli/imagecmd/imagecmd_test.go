package imagecmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/tests/golden"
)

// goldenImage is an image that was committed with the first version of the format.
const goldenImage = "../../ckpt/store/testdata/golden/v1/image"

// copyImage copies the golden image to where a test may do with it what it likes.
func copyImage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.CopyFS(path, os.DirFS(goldenImage)); err != nil {
		t.Fatal(err)
	}
	return path
}

// standStill makes texts the same whenever and wherever they are written.
func standStill(t *testing.T) {
	t.Helper()
	zone := time.Local
	time.Local = time.UTC
	now = func() time.Time { return time.Date(2026, 11, 23, 14, 1, 5, 0, time.UTC) }
	t.Cleanup(func() { time.Local, now = zone, time.Now })
}

// said runs a command and returns what it wrote and how it ended.
func said(command func(Output) error, asJSON bool) (string, error) {
	var out, progress bytes.Buffer
	err := command(Output{Out: &out, Err: &progress, JSON: asJSON})
	if asJSON && progress.Len() > 0 {
		err = errors.Join(err, fmt.Errorf("progress beside JSON: %s", progress.String()))
	}
	return out.String(), err
}

// diskSpace is what a file system makes of the image.
var diskSpace = regexp.MustCompile(`[0-9.]+ [KMG]?i?B on the disk|"bytes": [0-9]+,\n  "needed`)

// TestTexts compares what each command says of the golden image, to people and to scripts.
func TestTexts(t *testing.T) {
	standStill(t)
	for name, command := range map[string]func(Output) error{
		"list":   func(out Output) error { return List(out, goldenImage) },
		"show":   func(out Output) error { return Show(out, goldenImage, 0) },
		"verify": func(out Output) error { return Verify(t.Context(), out, goldenImage) },
		"diff":   func(out Output) error { return Diff(t.Context(), out, goldenImage, DiffOptions{}) },
	} {
		for _, asJSON := range []bool{false, true} {
			file := filepath.Join("testdata", name+map[bool]string{false: ".txt", true: ".json"}[asJSON])
			got, err := said(command, asJSON)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got = strings.ReplaceAll(diskSpace.ReplaceAllString(got, "SPACE"), "/"+"home/", "/users/")
			golden.Check(t, file, []byte(got))
		}
	}
}

// TestDamage changes files of an image: what is damaged must be named, whom it touches, and what to
// do.
func TestDamage(t *testing.T) {
	standStill(t)
	path := copyImage(t)
	var large string
	packs, err := filepath.Glob(filepath.Join(path, "packs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		if info, err := os.Stat(pack); err == nil && info.Size() > 2<<20 {
			large = pack
		}
	}
	content, err := os.ReadFile(large)
	if err != nil {
		t.Fatal(err)
	}
	content[2<<20] ^= 1 // within a chunk that only generation 2 has
	if err := os.WriteFile(large, content, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := said(func(out Output) error { return Verify(t.Context(), out, path) }, false)
	if !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "generation 1 can be restored (--restore --generation 1)") {
		t.Error(err)
	}
	for _, want := range []string{large + "\n", "at 2097152 of", "generation 2 needs it: gpu of pid 7, gpu0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	object, err := said(func(out Output) error { return Verify(t.Context(), out, path) }, true)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(object, `"parts": [`) ||
		!strings.Contains(object, `"good_generations": [`) {
		t.Errorf("%s, %v", object, err)
	}

	manifest := filepath.Join(path, "generations", "000001")
	if err := os.Truncate(manifest, 100); err != nil {
		t.Fatal(err)
	}
	text, err = said(func(out Output) error { return List(out, path) }, false)
	if err != nil || !strings.Contains(text, "damaged") || !strings.Contains(text, "pos_cli image verify") ||
		!strings.Contains(text, "2026-11-21") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err = said(func(out Output) error { return Show(out, path, 1) }, false); err == nil ||
		!strings.Contains(err.Error(), "generation 1 of "+path) {
		t.Error(err)
	}
	if _, err = said(func(out Output) error { return Show(out, path, 3) }, false); !errors.Is(
		err,
		store.ErrNoGeneration,
	) {
		t.Error(err)
	}
	if _, err = said(func(out Output) error { return Verify(t.Context(), out, path) }, false); err == nil ||
		!strings.Contains(err.Error(), "no generation is whole") {
		t.Error(err)
	}
	if _, err = said(func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{2}}) }, false); err == nil ||
		!strings.Contains(err.Error(), "nothing was removed") {
		t.Error(err)
	}
}

func TestPruneAndClean(t *testing.T) {
	path := copyImage(t)
	text, err := said(func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Keep: 5}) }, false)
	if err != nil || !strings.Contains(text, "no generation has to go") {
		t.Errorf("%s, %v", text, err)
	}
	text, err = said(
		func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Keep: 1, DryRun: true}) },
		true,
	)
	if err != nil || !strings.Contains(text, `"dry_run": true`) ||
		!strings.Contains(text, "\"removed\": [\n    1\n  ]") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err = said(func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{7}}) }, false); !errors.Is(
		err,
		store.ErrNoGeneration,
	) {
		t.Error(err)
	}
	text, err = said(
		func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{1}}) },
		false,
	)
	if err != nil || !strings.Contains(text, "removed generation 1, kept generation 2") {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Join(path, "generations")); err != nil || len(left) != 1 ||
		left[0].Name() != "000002" {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := said(func(out Output) error { return Diff(t.Context(), out, path, DiffOptions{}) }, false); !errors.Is(
		err,
		store.ErrNoGeneration,
	) {
		t.Error(err)
	}

	reader, err := openImage(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		if _, err := said(func(out Output) error { return Clean(out, path, dryRun) }, false); !errors.Is(
			err,
			store.ErrLocked,
		) {
			t.Errorf("while somebody reads: %v", err)
		}
	}
	reader.Close()
	text, err = said(func(out Output) error { return Clean(out, path, true) }, true)
	if err != nil || !strings.Contains(text, `"dry_run": true`) {
		t.Errorf("%s, %v", text, err)
	}
	text, err = said(func(out Output) error { return Clean(out, path, false) }, false)
	if err != nil || !strings.Contains(text, "removed 1 generation,") {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err = said(func(out Output) error { return Clean(out, path, false) }, false); !errors.Is(
		err,
		store.ErrNoImage,
	) {
		t.Errorf("a second time: %v", err)
	}
}

// TestForeignTexts: what an image says does not steer the terminal.
func TestForeignTexts(t *testing.T) {
	var out bytes.Buffer
	evil := rowView{Generation: 1, Command: "\x1b]0;owned\a", user: "x", Damage: ""}
	damaged := rowView{Generation: 2, Damage: "\x1b[2Jgone"}
	if err := (&listView{Dir: "d", Generations: []rowView{evil, damaged}}).table(Output{Out: &out}); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(out.Bytes(), 0x1b) || slices.Contains(out.Bytes(), 7) {
		t.Errorf("%q", out.String())
	}
}
