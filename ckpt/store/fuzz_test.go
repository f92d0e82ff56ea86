package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// memoryFile returns a memfd with a content.
func memoryFile(t testing.TB, content []byte) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	return file
}

// bounded fails if reading takes more memory than a small multiple of the input and the cached
// buffers.
func bounded(t *testing.T, given int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(given)*64+64<<20 {
		t.Errorf("%d bytes took %d to read", given, took)
	}
}

// FuzzPack reads a pack by its index and by its records, and all its contents. The header and the
// sum of the index are made valid, so that mutations get past them.
func FuzzPack(f *testing.F) {
	packs, err := filepath.Glob("testdata/golden/v1/image/packs/*")
	if err != nil || len(packs) == 0 {
		f.Fatal(packs, err)
	}
	for _, pack := range packs {
		raw, err := os.ReadFile(pack)
		if err != nil {
			f.Fatal(err)
		}
		if len(raw) < 1<<12 {
			f.Add(raw, true)
			f.Add(raw, false)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, fix bool) {
		raw = bytes.Clone(raw)
		if fix && len(raw) > image.PackHeaderBytes+image.TrailerBytes {
			mendPack(raw)
		}
		pack := memoryFile(t, raw)
		bounded(t, len(raw), func() {
			if reader, err := contents.NewReader([]*os.File{pack}); err == nil {
				readAll(t, reader, pack)
			}
			for _, each := range contents.Scan(pack) {
				_ = contents.Check(pack, each)
			}
		})
	})
}

func mendPack(raw []byte) {
	copy(raw, image.PackHeader{}.Encode())
	trailer := raw[len(raw)-image.TrailerBytes:]
	if decoded, err := image.DecodeTrailer(trailer, int64(len(raw))); err == nil {
		index := raw[decoded.Index : len(raw)-image.TrailerBytes]
		sum := sumOf(index, decoded.Head())
		copy(trailer[32:], sum[:])
	}
}

// readAll reads all contents, also as trees. Each must match its hash.
func readAll(t *testing.T, reader *contents.Reader, pack *os.File) {
	dst := make([]byte, image.ChunkBytes)
	for _, h := range namesIn(pack) {
		if n, err := reader.Read(h, dst); err == nil && image.Sum(dst[:n]) != h {
			t.Errorf("content does not match hash %s", h)
		}
		if tree, err := reader.Tree(h); err == nil {
			for _, entry := range tree.Entries {
				_, _ = reader.Open(entry).ReadAt(make([]byte, 100), 50)
			}
		}
	}
}

// namesIn returns the hashes in a pack, by its index or without it.
func namesIn(pack *os.File) (names []image.Hash) {
	places, err := contents.LoadIndex(pack)
	if err != nil {
		places = contents.Scan(pack)
	}
	for _, each := range places {
		names = append(names, each.Hash)
	}
	return names
}

// FuzzStream reads a stream into an empty directory, which must stay empty or hold a valid image.
func FuzzStream(f *testing.F) {
	from := initDir(f, f.TempDir())
	put(f, from, saved{memory: [][]byte{noise(1, 20), bytes.Repeat([]byte("x"), 200)}, compress: true})
	var stream bytes.Buffer
	if err := WriteStream(context.Background(), from, 1, &stream); err != nil {
		f.Fatal(err)
	}
	f.Add(stream.Bytes())
	f.Add(image.StreamHeader())
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := t.TempDir()
		d := initDir(t, path)
		bounded(t, len(raw), func() {
			if _, err := ReadStream(context.Background(), bytes.NewReader(raw), d); err != nil {
				if left, _ := os.ReadDir(path); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
				return
			}
			if found := problems(t, path); len(found) > 0 {
				t.Error(found)
			}
		})
	})
}

func FuzzJournal(f *testing.F) {
	f.Add(journal{generation: 3, packs: []image.ID{{1}, {2}}}.encode())
	f.Add([]byte("generation 1\nend\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, err := decodeJournal(raw)
		if err != nil {
			return
		}
		if again, err := decodeJournal(j.encode()); err != nil || again.generation != j.generation ||
			len(again.packs) != len(j.packs) {
			t.Errorf("decoded %+v, encoded %+v", j, again)
		}
	})
}

func sumOf(parts ...[]byte) image.Hash { return blake3.Sum256(slices.Concat(parts...)) }
