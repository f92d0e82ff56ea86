package store

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// TestDiff compares two generations with known differences.
func TestDiff(t *testing.T) {
	d := initDir(t, t.TempDir())
	same, large := noise(1, image.ChunkBytes), noise(2, 2*image.ChunkBytes+100)
	changed := bytes.Clone(large)
	changed[image.ChunkBytes+5] ^= 1
	for _, what := range []struct {
		memory [][]byte
		cpu    map[string][]byte
		files  map[string][]byte
		tweak  func(*image.Manifest)
	}{
		{
			[][]byte{same, noise(3, 1000), noise(4, 50)},
			map[string][]byte{"7/core-7.img": noise(5, 300), "7/pages-1.img": large},
			map[string][]byte{"/data/log": noise(6, 100), "/data/large": large, "/data/gone": noise(7, 10)},
			func(m *image.Manifest) { m.Processes[0].GPU.Objects = map[string]uint64{"stream": 2, "event": 1} },
		},
		{
			[][]byte{same, noise(8, 1000)},
			map[string][]byte{"7/core-7.img": noise(5, 300), "7/pages-1.img": changed},
			map[string][]byte{"/data/log": noise(9, 120), "/data/large": changed, "/data/new": noise(10, 7)},
			func(m *image.Manifest) { m.Processes[0].GPU.Objects = map[string]uint64{"stream": 3, "event": 1} },
		},
	} {
		putWith(t, d, saved{memory: what.memory, files: what.cpu}, func(m *image.Manifest, w *contents.Writer) {
			what.tweak(m)
			for _, path := range sortedNames(what.files) {
				m.Files = append(m.Files, savedFile(t, w, path, what.files[path]))
			}
		})
	}
	found, err := d.Diff(t.Context(), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(found, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "diff.json"))
	if err != nil || string(got)+"\n" != string(want) {
		t.Errorf("%v: got\n%s", err, got)
	}
	none, err := d.Diff(t.Context(), 2, 2)
	if err != nil || len(none.Processes)+len(none.CPU)+len(none.Files) > 0 || none.Totals.GPU.ChangedBytes > 0 ||
		none.Totals.GPU.SharedBytes == 0 {
		t.Errorf("between a generation and itself: %+v, %v", none, err)
	}
}

// putWith writes a generation; more may add to its manifest and to one of its packs.
func putWith(t testing.TB, d *Dir, what saved, more func(m *image.Manifest, w *contents.Writer)) {
	t.Helper()
	ctx := context.Background()
	transaction, err := d.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = transaction.Abort() }()
	m, err := fill(ctx, transaction, nil, what)
	if err != nil {
		t.Fatal(err)
	}
	pack, err := transaction.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	w := contents.NewWriter(pack, nil, contents.WriterOptions{})
	more(m, w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	sealed, err := image.SealManifest(m, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := transaction.Commit(ctx, sealed); err != nil {
		t.Fatal(err)
	}
}

// savedFile stores a file like a checkpoint: a small one as one content, a large one as a tree.
func savedFile(t testing.TB, w *contents.Writer, path string, content []byte) image.SavedFile {
	t.Helper()
	entry, err := w.PutFile(t.Context(), path, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	out := image.SavedFile{Path: path, Bytes: entry.Bytes, Mode: 0o644, Hash: image.Sum(content).String()}
	if len(entry.Chunks) > 1 {
		tree, err := w.PutTree(t.Context(), &image.Tree{Entries: []image.Entry{entry}})
		if err != nil {
			t.Fatal(err)
		}
		out.Hash = tree.String()
	}
	return out
}
