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

// copyImage copies the golden image into a temporary directory.
func copyImage(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.CopyFS(path, os.DirFS(goldenImage)); err != nil {
		t.Fatal(err)
	}
	return path
}

// fixTime sets the clock and the time zone for golden files.
func fixTime(t *testing.T) {
	t.Helper()
	zone := time.Local
	time.Local = time.UTC
	now = func() time.Time { return time.Date(2026, 11, 23, 14, 1, 5, 0, time.UTC) }
	t.Cleanup(func() { time.Local, now = zone, time.Now })
}

// output runs a command and returns its output and its error.
func output(command func(Output) error, asJSON bool) (string, error) {
	var out, progress bytes.Buffer
	err := command(Output{Out: &out, Err: &progress, JSON: asJSON})
	if asJSON && progress.Len() > 0 {
		err = errors.Join(err, fmt.Errorf("progress together with JSON: %s", progress.String()))
	}
	return out.String(), err
}

// diskSpace matches sizes that depend on the file system.
var diskSpace = regexp.MustCompile(`[0-9.]+ [KMG]?i?B on the disk|"bytes": [0-9]+,\n  "needed`)

// TestTexts compares the output of each command for the golden image with a golden file.
func TestTexts(t *testing.T) {
	fixTime(t)
	for name, command := range map[string]func(Output) error{
		"list":   func(out Output) error { return List(out, goldenImage) },
		"show":   func(out Output) error { return Show(out, goldenImage, 0) },
		"verify": func(out Output) error { return Verify(t.Context(), out, goldenImage) },
		"diff":   func(out Output) error { return Diff(t.Context(), out, goldenImage, DiffOptions{}) },
	} {
		for _, asJSON := range []bool{false, true} {
			file := filepath.Join("testdata", name+map[bool]string{false: ".txt", true: ".json"}[asJSON])
			got, err := output(command, asJSON)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got = strings.ReplaceAll(diskSpace.ReplaceAllString(got, "SPACE"), "/"+"home/", "/users/")
			golden.Check(t, file, []byte(got))
		}
	}
}

// TestDamage damages an image: the commands name the damage, what is affected, and what to do.
func TestDamage(t *testing.T) {
	fixTime(t)
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
	text, err := output(func(out Output) error { return Verify(t.Context(), out, path) }, false)
	if !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "generation 1 can be restored (--restore --generation 1)") {
		t.Error(err)
	}
	for _, want := range []string{large + "\n", "at 2097152 of", "generation 2 needs it: gpu of pid 7, gpu0"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	object, err := output(func(out Output) error { return Verify(t.Context(), out, path) }, true)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(object, `"parts": [`) ||
		!strings.Contains(object, `"good_generations": [`) {
		t.Errorf("%s, %v", object, err)
	}

	manifest := filepath.Join(path, "generations", "000001")
	if err := os.Truncate(manifest, 100); err != nil {
		t.Fatal(err)
	}
	text, err = output(func(out Output) error { return List(out, path) }, false)
	if err != nil || !strings.Contains(text, "damaged") || !strings.Contains(text, "pos_cli image verify") ||
		!strings.Contains(text, "2026-11-21") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err = output(func(out Output) error { return Show(out, path, 1) }, false); err == nil ||
		!strings.Contains(err.Error(), "generation 1 of "+path) {
		t.Error(err)
	}
	if _, err = output(func(out Output) error { return Show(out, path, 3) }, false); !errors.Is(
		err,
		store.ErrNoGeneration,
	) {
		t.Error(err)
	}
	if _, err = output(func(out Output) error { return Verify(t.Context(), out, path) }, false); err == nil ||
		!strings.Contains(err.Error(), "every generation needs the lost data") {
		t.Error(err)
	}
	if _, err = output(func(out Output) error {
		return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{2}})
	}, false); err == nil ||
		!strings.Contains(err.Error(), "nothing was removed") {
		t.Error(err)
	}
}

func TestPruneAndClean(t *testing.T) {
	path := copyImage(t)
	text, err := output(func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Keep: 5}) }, false)
	if err != nil || !strings.Contains(text, "nothing to remove") {
		t.Errorf("%s, %v", text, err)
	}
	text, err = output(
		func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Keep: 1, DryRun: true}) },
		true,
	)
	if err != nil || !strings.Contains(text, `"dry_run": true`) ||
		!strings.Contains(text, "\"removed\": [\n    1\n  ]") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err = output(func(out Output) error {
		return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{7}})
	}, false); !errors.Is(
		err,
		store.ErrNoGeneration,
	) {
		t.Error(err)
	}
	text, err = output(
		func(out Output) error { return Prune(t.Context(), out, path, PruneOptions{Remove: []uint64{1}}) },
		false,
	)
	if err != nil || !strings.Contains(text, "removed generation 1, kept generation 2") {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Join(path, "generations")); err != nil || len(left) != 1 ||
		left[0].Name() != "000002" {
		t.Errorf("left over: %v, %v", left, err)
	}
	if _, err := output(func(out Output) error { return Diff(t.Context(), out, path, DiffOptions{}) }, false); !errors.Is(
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
		if _, err := output(func(out Output) error {
			return Clean(t.Context(), out, path, CleanOptions{DryRun: dryRun})
		}, false); !errors.Is(
			err,
			store.ErrLocked,
		) {
			t.Errorf("while a reader has it open: %v, want %v", err, store.ErrLocked)
		}
	}
	reader.Close()
	text, err = output(func(out Output) error { return Clean(t.Context(), out, path, CleanOptions{DryRun: true}) }, true)
	if err != nil || !strings.Contains(text, `"dry_run": true`) {
		t.Errorf("%s, %v", text, err)
	}
	text, err = output(func(out Output) error { return Clean(t.Context(), out, path, CleanOptions{}) }, false)
	if err != nil || !strings.Contains(text, "removed 1 generation,") {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := os.ReadDir(path); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if _, err = output(func(out Output) error { return Clean(t.Context(), out, path, CleanOptions{}) }, false); !errors.Is(
		err,
		store.ErrNoImage,
	) {
		t.Errorf("a second time: %v", err)
	}
}

// TestCleanDirectory: a directory as checkpoints make it goes with its image. Others stay.
func TestCleanDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		change func(path string) (string, error)
		keeps  bool
	}{
		"as phos makes it": {change: func(path string) (string, error) { return path, nil }},
		"of another mode":  {func(path string) (string, error) { return path, os.Chmod(path, 0o750) }, true},
		"through a link": {func(path string) (string, error) {
			return path + "-link", os.Symlink(path, path+"-link")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path := copyImage(t)
			if err := os.Chmod(path, 0o700); err != nil {
				t.Fatal(err)
			}
			named, err := test.change(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, dryRun := range []bool{true, false} {
				text, err := output(func(out Output) error {
					return Clean(t.Context(), out, named, CleanOptions{DryRun: dryRun, Directory: true})
				}, true)
				if want := fmt.Sprintf(`"directory": %v`, !test.keeps); err != nil || !strings.Contains(text, want) {
					t.Errorf("dry run %v: got %s, %v, want %s", dryRun, text, err, want)
				}
			}
			if left, err := os.ReadDir(path); (err == nil) != test.keeps || len(left) > 0 {
				t.Errorf("got %v, %v; keeps: %v", left, err, test.keeps)
			}
		})
	}
}

// TestForeignTexts: texts of an image reach the terminal without control characters.
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
