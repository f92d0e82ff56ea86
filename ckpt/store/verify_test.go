package store

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// filesOf returns the files of an image by path.
func filesOf(t testing.TB, path string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(name)
		short, _ := filepath.Rel(path, name)
		all[short] = content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// problems verifies an image and returns the problems as a user sees them.
func problems(t testing.TB, path string) []string {
	t.Helper()
	d, err := Open(openDir(t, path))
	if err != nil {
		return []string{err.Error()}
	}
	defer d.Close()
	found, err := d.Verify(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, problem := range found.Problems {
		all = append(all, problem.String())
	}
	return all
}

// TestLayout writes chunks and records in every order. All must be found, with the index and
// without.
func TestLayout(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 12 {
		path := t.TempDir()
		d := initDir(t, path)
		what := saved{compress: random.IntN(4) == 0}
		for range 1 + random.IntN(14) {
			bytes := []int{image.ChunkBytes, image.ChunkBytes, 1 + random.IntN(image.ChunkBytes-1), 100, 70_000}[random.IntN(5)]
			what.memory = append(what.memory, noise(random.Uint64(), bytes))
		}
		put(t, d, what)
		if found := problems(t, path); len(found) > 0 {
			t.Fatal(found)
		}
		packs, err := d.Packs()
		if err != nil {
			t.Fatal(err)
		}
		for _, pack := range packs {
			index, err := contents.LoadIndex(pack)
			if err != nil {
				t.Fatal(err)
			}
			found := map[image.Place]bool{}
			for _, each := range contents.Scan(pack) {
				found[each] = true
			}
			for _, each := range index {
				if !found[each] {
					t.Errorf("%+v not found without the index", each)
				}
			}
			if info, err := pack.Stat(); err != nil ||
				diskBytes(info) > liveBytes(index)+16*image.PageBytes+uint64(len(index))*2*image.PageBytes {
				t.Errorf("%d bytes for %d, %v", diskBytes(info), liveBytes(index), err)
			}
		}
		closeAll(packs)
		check(t, d, 1, what)
	}
}

// small returns a small generation with all kinds of data.
func small(seed uint64) saved {
	return saved{
		memory: [][]byte{
			noise(seed, 5000),
			noise(99, 70_000),
			make([]byte, 4096),
			[]byte(strings.Repeat("compressible ", 1000)),
		},
		files: map[string][]byte{"core-1.img": noise(seed+1, 300)}, compress: true,
	}
}

// TestFlippedBits flips bits in every file of an image; the report must name the file.
func TestFlippedBits(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	put(t, d, small(2))
	if found := problems(t, path); len(found) > 0 {
		t.Fatalf("new image: %v", found)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for name, content := range filesOf(t, path) {
		offsets := flipsFor(random, len(content))
		for _, at := range offsets {
			bit := byte(1) << random.IntN(8)
			content[at] ^= bit
			overwrite(t, filepath.Join(path, name), content)
			if found := strings.Join(problems(t, path), "\n"); !strings.Contains(found, name) {
				t.Errorf("%s: flipped bit %#x at %d of %d; found: %q", name, bit, at, len(content), found)
			}
			content[at] ^= bit
		}
		overwrite(t, filepath.Join(path, name), content)
	}
	if found := problems(t, path); len(found) > 0 {
		t.Errorf("after flipping all bits back: %v", found)
	}
}

// TestUnexpectedData writes into the gap between the last record of a pack and the next chunk. The
// report names the place once.
func TestUnexpectedData(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, saved{memory: [][]byte{noise(1, 5000), noise(2, image.ChunkBytes)}})
	packs, err := d.Packs()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(packs)
	tried := false
	for _, pack := range packs {
		gap, ok := gapOf(t, pack)
		if !ok {
			continue
		}
		tried = true
		name := pack.Name()
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		content[gap] ^= 1
		overwrite(t, name, content)
		found := strings.Join(problems(t, path), "\n")
		if !strings.Contains(found, "unexpected data") || strings.Count(found, fmt.Sprintf("at %d", gap)) != 1 {
			t.Errorf("%s: found %q, want unexpected data, once at %d", name, found, gap)
		}
	}
	if !tried {
		t.Error("no pack has a gap")
	}
}

// gapOf returns the first page after the records of a pack, if a chunk follows it.
func gapOf(t *testing.T, pack *os.File) (at int64, ok bool) {
	t.Helper()
	places, err := contents.LoadIndex(pack)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range places {
		if place.Slot() {
			ok = true
		} else {
			at = max(at, int64(place.Offset)+int64(place.StoredBytes))
		}
	}
	return image.RoundUp(at, image.PageBytes), ok && at > 0
}

// flipsFor returns all offsets at both ends of a file, where its structure is densest, and some
// between.
func flipsFor(random *rand.Rand, length int) (offsets []int) {
	for i := range length {
		if i < rounds.Of(60, 300) || i >= length-rounds.Of(100, 500) || random.IntN(length) < rounds.Of(40, 200) {
			offsets = append(offsets, i)
		}
	}
	return offsets
}

func overwrite(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTruncated truncates and extends every file of an image.
func TestTruncated(t *testing.T) {
	path := t.TempDir()
	put(t, initDir(t, path), small(1))
	for name, content := range filesOf(t, path) {
		for _, length := range []int{0, 1, len(content) / 2, len(content) - 1, len(content) + 1, len(content) + 64} {
			if length == len(content) || length < 0 {
				continue
			}
			overwrite(
				t,
				filepath.Join(path, name),
				append(content[:min(length, len(content)):len(content)], make([]byte, max(0, length-len(content)))...),
			)
			if found := strings.Join(problems(t, path), "\n"); !strings.Contains(found, name) {
				t.Errorf("%s: %d bytes instead of %d; found: %q", name, length, len(content), found)
			}
		}
		overwrite(t, filepath.Join(path, name), content)
	}
}

func TestVerifyUnexpectedAndMissingFiles(t *testing.T) {
	path := t.TempDir()
	put(t, initDir(t, path), small(1))
	for name, content := range filesOf(t, path) {
		if !strings.HasPrefix(name, packsName) {
			continue
		}
		if err := os.Remove(filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
		if found := strings.Join(problems(t, path), "\n"); !strings.Contains(found, "generations/000001: ") {
			t.Errorf("without %s: found %q", name, found)
		}
		overwrite(t, filepath.Join(path, name), content)
	}
	for _, name := range []string{"stray", "packs/stray", "generations/1", "generations/000002.bak"} {
		overwrite(t, filepath.Join(path, name), nil)
		if found := strings.Join(problems(t, path), "\n"); !strings.Contains(found, name+": ") {
			t.Errorf("with %s: found %q", name, found)
		}
		_ = os.Remove(filepath.Join(path, name))
	}
}
