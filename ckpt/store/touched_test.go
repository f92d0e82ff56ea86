package store

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// readable returns the generations that can be read completely, without using Verify.
func readable(t *testing.T, path string) (all []uint64) {
	t.Helper()
	d, err := Open(openDir(t, path))
	if err != nil {
		return nil
	}
	defer d.Close()
	reader, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	numbers, err := d.Generations()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		m, err := d.Inspect(n)
		if err == nil && readWhole(reader, m.Processes[0].GPU.Tree) && readWhole(reader, m.CPU.Tree) {
			all = append(all, n)
		}
	}
	return all
}

func readWhole(reader *contents.Reader, name string) bool {
	h, err := image.ParseHash(name)
	if err != nil {
		return false
	}
	tree, err := reader.Tree(h)
	if err != nil {
		return false
	}
	dst := make([]byte, image.ChunkBytes)
	for _, entry := range tree.Entries {
		for _, chunk := range entry.Chunks {
			if reader.ReadChunk(chunk, dst[:chunk.Bytes]) != nil {
				return false
			}
		}
	}
	return true
}

// TestVerifyAffectedGenerations flips bits in packs. The generations that Verify reports must be
// those that cannot be read, with the right process.
func TestVerifyAffectedGenerations(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	put(t, d, small(1))
	put(t, d, small(2))
	random := rand.New(rand.NewPCG(5, 6))
	both, lost := 0, 0
	for name, content := range filesOf(t, path) {
		if !strings.HasPrefix(name, packsName) {
			continue
		}
		for range 60 {
			at := random.IntN(len(content))
			if random.IntN(3) == 0 {
				at = random.IntN(image.PackHeaderBytes + image.RecordHeaderBytes)
			}
			content[at] ^= 1
			overwrite(t, filepath.Join(path, name), content)
			found, err := d.Verify(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			good := []uint64{1, 2}
			for _, problem := range found.Problems {
				for _, touch := range problem.Touches {
					good = slices.DeleteFunc(good, func(n uint64) bool { return n == touch.Generation })
					if part := touch.Parts[0]; problem.File != name ||
						!strings.HasPrefix(part, "gpu of pid 7") && !strings.HasPrefix(part, "cpu") {
						t.Errorf("%s was changed at %d: %+v", name, at, problem)
					}
				}
			}
			if really := readable(t, path); !slices.Equal(good, really) {
				t.Errorf(
					"%s was changed at %d: generations %v can be read, and %v are not touched: %v",
					name,
					at,
					really,
					good,
					found.Problems,
				)
			}
			switch len(good) {
			case 0:
				both++
			case 1:
				lost++
			}
			content[at] ^= 1
		}
		overwrite(t, filepath.Join(path, name), content)
	}
	if both == 0 || lost == 0 {
		t.Errorf("both generations lost %d times, one %d times: too few cases", both, lost)
	}
}
