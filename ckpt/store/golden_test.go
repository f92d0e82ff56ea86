package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
)

// goldenSaved describes the two generations of a golden image. Each version's image was written
// once, by the first phos with that version, and is never rewritten: every later phos must read it.
func goldenSaved(n uint64) saved {
	what := saved{
		memory: [][]byte{
			bytes.Repeat([]byte{byte(n)}, 3000), make([]byte, 4096), noise(7, 66_000),
			[]byte(strings.Repeat("a content that compresses; ", 400)), noise(n, 100),
		},
		files:    map[string][]byte{"7/core-1.img": noise(8, 333), "7/empty": nil},
		compress: n == 1,
	}
	if n == 2 {
		what.memory = append(what.memory, bytes.Repeat(noise(9, 4096), image.ChunkBytes/4096), noise(10, 10))
	}
	return what
}

// goldenKernel is the kernel in the manifests.
const goldenKernel = "6.1.0-golden"

func TestGoldenImages(t *testing.T) {
	for version := 1; version <= image.Version; version++ {
		golden := filepath.Join("testdata", "golden", fmt.Sprintf("v%d", version))
		path := t.TempDir()
		if err := os.CopyFS(path, os.DirFS(filepath.Join(golden, "image"))); err != nil {
			t.Fatal(err)
		}
		if found := problems(t, path); len(found) > 0 {
			t.Errorf("version %d: %v", version, found)
		}
		described(t, golden)
		d := initDir(t, path)
		for n := range uint64(2) {
			check(t, d, n+1, goldenSaved(n+1))
		}
		m, err := d.Inspect(2)
		if err != nil || m.Host.Kernel != goldenKernel || m.Owner.UID != 1000 ||
			m.Processes[0].GPU.Objects["stream"] != 2 ||
			len(m.Endpoints) != 1 {
			t.Errorf("version %d: manifest %+v, %v", version, m, err)
		}
		// The image can be extended.
		if n := put(t, d, small(5)); n != 3 {
			t.Errorf("version %d: next generation %d", version, n)
		}
		if _, err := d.Prune(t.Context(), Keep{Generations: []uint64{1, 3}}); err != nil {
			t.Error(err)
		}
		check(t, d, 1, goldenSaved(1))

		stream, err := os.Open(filepath.Join(golden, "stream"))
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		to := initDir(t, t.TempDir())
		if n, err := ReadStream(t.Context(), stream, to); err != nil || n != 1 {
			t.Errorf("version %d: generation %d, %v", version, n, err)
		}
		check(t, to, 1, goldenSaved(1))
	}
}

// described checks that the text file beside the golden image, for independent readers, matches it.
func described(t *testing.T, golden string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, "image.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(2) {
		what := goldenSaved(n + 1)
		memory := fullMemory{name: "gpu0"}
		for i, content := range what.memory {
			memory.add(uint64(1+i)*image.ChunkBytes, content)
		}
		for _, line := range (full{memories: []fullMemory{memory}, cpu: what.files}).describe(n + 1) {
			if !strings.Contains(string(text), line+"\n") {
				t.Errorf("%s/image.txt lacks %s", golden, line)
			}
		}
	}
}
