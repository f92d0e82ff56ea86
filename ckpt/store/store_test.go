package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// openDir opens a directory like a command.
func openDir(t testing.TB, path string) *os.File {
	t.Helper()
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

func initDir(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := Init(openDir(t, path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// noise returns incompressible bytes that depend only on the seed.
func noise(seed uint64, bytes int) []byte {
	out := make([]byte, bytes)
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	_, _ = random.Read(out)
	return out
}

var testKey = image.NewKey([32]byte{1, 2, 3})

// saved is the content of a test generation: GPU memory in the order of addresses, and files.
type saved struct {
	memory   [][]byte
	files    map[string][]byte
	compress bool
}

// put writes a generation and returns its number.
func put(t testing.TB, d *Dir, what saved) uint64 {
	t.Helper()
	n, err := tryPut(d, what)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func tryPut(d *Dir, what saved) (uint64, error) {
	ctx := context.Background()
	transaction, err := d.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = transaction.Abort() }()
	known, closeKnown, err := d.Reader()
	if err != nil {
		return 0, err
	}
	defer closeKnown()
	m, err := fill(ctx, transaction, known, what)
	if err != nil {
		return 0, err
	}
	sealed, err := image.SealManifest(m, testKey)
	if err != nil {
		return 0, err
	}
	return m.Generation, transaction.Commit(ctx, sealed)
}

// fill writes two packs, like a worker and phosd.
func fill(ctx context.Context, transaction *Transaction, known *contents.Reader, what saved) (*image.Manifest, error) {
	m := &image.Manifest{Version: image.Version, Generation: transaction.Generation(), Phos: "test"}
	gpu, err := fillTree(ctx, transaction, known, what, func(w *contents.Writer) ([]image.Entry, error) {
		memory := image.Entry{Kind: image.Memory, Name: "gpu0"}
		for i, content := range what.memory {
			h, _, err := w.Put(ctx, content)
			if err != nil {
				return nil, err
			}
			memory.Bytes += uint64(len(content))
			memory.Chunks = append(
				memory.Chunks,
				image.Chunk{Address: uint64(1+i) * image.ChunkBytes, Bytes: uint32(len(content)), Hash: h},
			)
		}
		return []image.Entry{memory}, nil
	})
	if err != nil {
		return nil, err
	}
	cpu, err := fillTree(ctx, transaction, known, what, func(w *contents.Writer) (entries []image.Entry, err error) {
		for _, name := range sortedNames(what.files) {
			entry, err := w.PutFile(ctx, name, bytes.NewReader(what.files[name]))
			if err != nil {
				return nil, err
			}
			entries = append(entries, entry)
		}
		return entries, nil
	})
	if err != nil {
		return nil, err
	}
	m.Processes = []image.Process{{PID: 7, Command: "train", Threads: 1, GPU: &image.GPUHalf{Tree: gpu.String()}}}
	m.CPU.Tree = cpu.String()
	return m, nil
}

func fillTree(
	ctx context.Context,
	transaction *Transaction,
	known *contents.Reader,
	what saved,
	entries func(*contents.Writer) ([]image.Entry, error),
) (image.Hash, error) {
	pack, err := transaction.NewPack()
	if err != nil {
		return image.Hash{}, err
	}
	defer pack.Close()
	w := contents.NewWriter(pack, known, contents.WriterOptions{Compress: what.compress})
	all, err := entries(w)
	if err != nil {
		return image.Hash{}, err
	}
	tree, err := w.PutTree(ctx, &image.Tree{Entries: all})
	if err != nil {
		return image.Hash{}, err
	}
	return tree, w.Close()
}

// check compares a generation with what was put into it.
func check(t testing.TB, d *Dir, n uint64, want saved) {
	t.Helper()
	sealed, err := d.Manifest(n)
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := image.OpenSealed(sealed, []image.Key{testKey})
	if err != nil {
		t.Fatal(err)
	}
	reader, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	gpu := treeOf(t, reader, m.Processes[0].GPU.Tree)
	if got := len(gpu.Entries[0].Chunks); got != len(want.memory) {
		t.Fatalf("generation %d has %d chunks of memory, want %d", n, got, len(want.memory))
	}
	for i, chunk := range gpu.Entries[0].Chunks {
		got := make([]byte, chunk.Bytes)
		if err := reader.ReadChunk(chunk, got); err != nil || !bytes.Equal(got, want.memory[i]) {
			t.Errorf("generation %d: chunk %d differs: %v", n, i, err)
		}
	}
	cpu := treeOf(t, reader, m.CPU.Tree)
	if len(cpu.Entries) != len(want.files) {
		t.Fatalf("generation %d has %d files, want %d", n, len(cpu.Entries), len(want.files))
	}
	for _, entry := range cpu.Entries {
		var got bytes.Buffer
		if err := reader.Copy(context.Background(), entry, &got); err != nil ||
			!bytes.Equal(got.Bytes(), want.files[entry.Name]) {
			t.Errorf("generation %d: %s differs: %v", n, entry.Name, err)
		}
	}
}

func treeOf(t testing.TB, reader *contents.Reader, name string) *image.Tree {
	t.Helper()
	h, err := image.ParseHash(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := reader.Tree(h)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func sample(seed uint64) saved {
	text := bytes.Repeat([]byte("what a program writes compresses well; "), 5000)
	return saved{
		memory: [][]byte{
			noise(
				seed,
				image.ChunkBytes,
			), make([]byte, image.ChunkBytes), noise(1000, image.ChunkBytes), noise(seed, 777),
			append(text, byte(seed)),
		},
		files: map[string][]byte{
			"core-1.img":  noise(seed+1, 3000),
			"pages-1.img": noise(seed+2, 2*image.ChunkBytes+5),
			"empty":       nil,
			"exact":       noise(3, image.ChunkBytes),
		},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, compress := range []bool{false, true} {
		path := t.TempDir()
		d := initDir(t, path)
		var want []saved
		for i := range 3 {
			what := sample(uint64(10 * i))
			what.compress = compress
			if n := put(t, d, what); n != uint64(i+1) {
				t.Fatalf("generation %d, want %d", n, i+1)
			}
			want = append(want, what)
		}
		again, err := Open(openDir(t, path))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		for i, what := range want {
			check(t, again, uint64(i+1), what)
		}
		if left, err := filepath.Glob(filepath.Join(path, tmpName, "*")); len(left) > 0 || err != nil {
			t.Errorf("left in tmp: %v %v", left, err)
		}
	}
}

func TestInitRejectsForeignDirectory(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.tex"), []byte("years of work"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(openDir(t, path)); !errors.Is(err, ErrForeign) {
		t.Errorf("directory that is not empty: %v", err)
	}
	if _, err := Open(openDir(t, path)); !errors.Is(err, ErrNoImage) {
		t.Errorf("directory without an image: %v", err)
	}
	if names, _ := os.ReadDir(path); len(names) != 1 {
		t.Errorf("the directory was changed: %v", names)
	}
}

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
