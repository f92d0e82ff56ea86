package store

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// allocated returns how many bytes act allocates.
func allocated(act func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	act()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// craftedPack returns a pack with a valid header, followed by content and a hole, with end as the
// end of the file.
func craftedPack(t *testing.T, content []byte, fileBytes int64, end []byte) *os.File {
	t.Helper()
	pack := memoryFile(t, append(image.PackHeader{}.Encode(), content...))
	if _, err := pack.WriteAt(end, fileBytes-int64(len(end))); err != nil {
		t.Fatal(err)
	}
	return pack
}

// sealedEnd returns an index and a trailer with a valid sum.
func sealedEnd(index []byte, t image.Trailer) []byte {
	out := append(slices.Clone(index), t.Head()...)
	sum := blake3.Sum256(out)
	return append(out, sum[:]...)
}

// TestCraftedPacks announces huge numbers: no memory may be allocated for them, and no hole may be
// read.
func TestCraftedPacks(t *testing.T) {
	const huge = 1 << 43 // most file systems accept this length for a sparse file
	record := func(contentBytes, storedBytes uint32, encoding image.Encoding) []byte {
		return image.Record{
			Hash:         image.Hash{1},
			Encoding:     encoding,
			ContentBytes: contentBytes,
			StoredBytes:  storedBytes,
		}.Encode()
	}
	entries := uint64((huge - image.PackHeaderBytes - image.TrailerBytes) / image.IndexEntryBytes / 8 * 8)
	index := uint64(huge) - image.TrailerBytes - entries*image.IndexEntryBytes
	for _, test := range []struct {
		name      string
		content   []byte
		fileBytes int64
		end       []byte
	}{
		{"an index of all there is room for", nil, huge, sealedEnd(nil, image.Trailer{Index: index, Entries: entries})},
		{"an index of no entry", nil, huge, sealedEnd(nil, image.Trailer{Index: huge - image.TrailerBytes})},
		{"no index", nil, huge, nil},
		{"more entries than numbers", nil, 1 << 20, sealedEnd(nil, image.Trailer{Index: 64, Entries: math.MaxUint64})},
		{"a record of a whole chunk", record(image.ChunkBytes, image.ChunkBytes, image.Raw), 1 << 10, nil},
		{
			"a frame of a whole chunk", append(record(image.ChunkBytes, image.SumBytes+100, image.Zstd), make([]byte, 200)...),
			1 << 10, nil,
		},
		{"a place of a whole chunk", nil, 1 << 20, sealedEnd(image.AppendPlace(nil, image.Place{
			Hash: image.Hash{1}, Offset: 128, StoredBytes: image.ChunkBytes, ContentBytes: image.ChunkBytes,
		}), image.Trailer{Index: 1<<20 - image.TrailerBytes - image.IndexEntryBytes, Entries: 1})},
	} {
		t.Run(test.name, func(t *testing.T) {
			pack := craftedPack(t, test.content, test.fileBytes, test.end)
			took := allocated(func() {
				reader, err := contents.NewReader([]*os.File{pack})
				if err != nil {
					return
				}
				for _, h := range namesIn(pack) {
					if tree, err := reader.Tree(h); err == nil {
						t.Errorf("unexpected tree: %v", tree)
					}
				}
			})
			// One buffer for a chunk, and one for a part of an index.
			if took > 8<<20 {
				t.Errorf("%d bytes allocated", took)
			}
		})
	}
}

// TestCraftedTrees refers to one stored content so often that the described size is far larger than
// the stored one.
func TestCraftedTrees(t *testing.T) {
	for name, make := range map[string]func() []byte{
		"a list of one part over and over": func() []byte {
			list := image.List{Bytes: 60_000 * image.ChunkBytes}
			for range 60_000 {
				list.Parts = append(list.Parts, image.Hash{7})
			}
			return list.Encode()
		},
		"a list of more than a tree may have": func() []byte {
			list := image.List{Bytes: 60_000 * image.ChunkBytes}
			for i := range uint32(60_000) {
				part := image.Hash{1}
				binary.LittleEndian.PutUint32(part[1:], i)
				list.Parts = append(list.Parts, part)
			}
			return list.Encode()
		},
		"a tree of more entries than bytes": func() []byte {
			raw, _ := (&image.Tree{}).Encode()
			binary.LittleEndian.PutUint32(raw[12:], math.MaxUint32)
			return raw
		},
		"an entry of more chunks than bytes": func() []byte {
			raw, _ := (&image.Tree{Entries: []image.Entry{{Kind: image.File, Name: "a"}}}).Encode()
			binary.LittleEndian.PutUint64(raw[16+12:], math.MaxUint64/44)
			return raw
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := initDir(t, t.TempDir())
			transaction, err := d.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = transaction.Abort() }()
			pack, err := transaction.NewPack()
			if err != nil {
				t.Fatal(err)
			}
			defer pack.Close()
			w := contents.NewWriter(pack, nil, contents.WriterOptions{})
			raw := make()
			h, _, err := w.Put(t.Context(), raw)
			if err == nil {
				err = w.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			m := &image.Manifest{
				Version:    image.Version,
				Generation: 1,
				CPU:        image.CPUHalf{Tree: h.String(), Bytes: math.MaxUint64},
			}
			sealed, err := image.SealManifest(m, testKey)
			if err != nil {
				t.Fatal(err)
			}
			took := allocated(func() { err = transaction.Commit(t.Context(), sealed) })
			if !errors.Is(err, image.ErrMalformed) && !errors.Is(err, contents.ErrMissing) {
				t.Errorf("committed: %v", err)
			}
			if took > uint64(len(raw))*8+8<<20 {
				t.Errorf("%d bytes allocated for %d", took, len(raw))
			}
		})
	}
}

// TestLongSparseFile: StoredBytes shows that a long file takes no space.
func TestLongSparseFile(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	content := slices.Concat(
		noise(1, image.ChunkBytes),
		noise(1, image.ChunkBytes),
		make([]byte, 8*image.ChunkBytes),
		noise(2, 100),
	)
	put(t, d, saved{files: map[string][]byte{"long": content}, memory: [][]byte{noise(3, 10)}})
	reader, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	m, err := d.Inspect(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := reader.StoredBytes(treeOf(t, reader, m.CPU.Tree).Entries[0]); got != image.ChunkBytes+100 {
		t.Errorf("%d bytes are stored", got)
	}
}

// TestManyPacks: small packs are merged before there are too many to open.
func TestManyPacks(t *testing.T) {
	path := t.TempDir()
	d := initDir(t, path)
	const generations = mergePacks/2 + 10
	for n := range uint64(generations) {
		put(t, d, saved{memory: [][]byte{noise(n, 100)}, files: map[string][]byte{"f": noise(n+1000, 50)}})
	}
	packs, err := os.ReadDir(filepath.Join(path, packsName))
	if err != nil || len(packs) > mergePacks {
		t.Errorf("%d packs, %v", len(packs), err)
	}
	for _, n := range []uint64{1, 2, generations / 2, generations} {
		check(t, d, n, saved{memory: [][]byte{noise(n-1, 100)}, files: map[string][]byte{"f": noise(n-1+1000, 50)}})
	}
	if found := problems(t, path); len(found) > 0 {
		t.Error(found)
	}
	for range maxPacks {
		overwrite(t, filepath.Join(path, packsName, packName(newID())), nil)
	}
	if _, err := d.Packs(); !errors.Is(err, contents.ErrTooLarge) ||
		!strings.Contains(err.Error(), "pos_cli image prune "+path) {
		t.Errorf("too many packs: %v", err)
	}
	if done, err := d.Prune(t.Context(), Keep{Newest: 1}); err != nil || done.PacksRemoved < maxPacks {
		t.Errorf("%+v, %v", done, err)
	}
	check(
		t,
		d,
		generations,
		saved{
			memory: [][]byte{noise(generations-1, 100)},
			files:  map[string][]byte{"f": noise(generations-1+1000, 50)},
		},
	)
}
