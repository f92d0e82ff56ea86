package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// writeFull is the directory into which TestWriteFull writes a new image with all kinds of data.
// The images in testdata/golden were written once, when their format version was new, and are never
// rewritten.
var writeFull = flag.String(
	"write-full-image",
	"",
	"write an image in which everything occurs, and what it holds, into this `directory`",
)

// fullMemory is one memory: contents by address, in loading order.
type fullMemory struct {
	name   string
	chunks []fullChunk
}

type fullChunk struct {
	address uint64
	content []byte
}

func (m *fullMemory) add(address uint64, content []byte) {
	m.chunks = append(m.chunks, fullChunk{address, content})
}

// full describes a generation of the full image.
type full struct {
	compress bool
	kinds    []string
	memories []fullMemory
	// gpu, cpu and saved are files by name; fullLibrary is one of
	// saved, fullLengthOnly is in none.
	gpu, cpu, saved map[string][]byte
}

const (
	fullBase       = 0x3000_0000_0000
	fullArena      = 0x6000_0000_0000
	fullLibrary    = "/opt/phos/libphos.so"
	fullLengthOnly = "/data/huge"
	// fullMany is the number of zero chunks that makes a tree longer than a chunk.
	fullMany = 47_700
)

// pattern returns bytes that compress, but not to nothing.
func pattern(seed uint64, bytes int) []byte {
	return slices.Concat(slices.Repeat([][]byte{noise(seed, 4096)}, bytes/4096+1)...)[:bytes]
}

func fullGeneration(n uint64) full {
	memory := func(name string, base uint64, contents ...[]byte) fullMemory {
		m := fullMemory{name: name}
		for i, content := range contents {
			m.add(base+uint64(i)*image.ChunkBytes, content)
		}
		return m
	}
	gpu0 := memory(
		"gpu0",
		fullBase,
		noise(1, 5000),
		make([]byte, image.ChunkBytes),
		pattern(2, image.ChunkBytes),
		noise(100+n, 333),
	)
	slices.Reverse(gpu0.chunks) // loaded from the end
	text := []byte(strings.Repeat("what a program writes compresses well; ", 3000))
	f := full{
		compress: n == 1,
		memories: []fullMemory{memory("arena", fullArena, text, noise(200+n, 70_000)), gpu0},
		gpu: map[string][]byte{
			"session": slices.Concat(noise(3, 4096), make([]byte, 3<<20)),
			"objects": noise(300+n, 700),
			"worker":  []byte(`{"version":1}`),
		},
		cpu: map[string][]byte{
			"7/core-7.img":  noise(4, 900),
			"7/core-8.img":  noise(400+n, 901),
			"7/pages-1.img": pattern(5, 2*image.ChunkBytes+5),
			"7/empty.img":   nil,
		},
		saved: map[string][]byte{
			"/data/log":   text[:int(n)*5000],
			"/data/large": pattern(5, image.ChunkBytes+77),
			fullLibrary:   noise(6, 2000),
			"/data/none":  nil,
		},
	}
	switch n {
	case 2:
		// A memory with so many chunks that its tree is stored as a list of parts.
		many := fullMemory{name: "gpu1"}
		for i := range uint64(fullMany) {
			many.add(fullBase+1<<40+i*image.ChunkBytes, make([]byte, 16))
		}
		many.chunks[7].content = noise(500, 16)
		f.memories = append(f.memories, many)
	case 3:
		f = full{
			kinds:    []string{"cuda_memory"},
			memories: f.memories,
			gpu:      map[string][]byte{"worker": []byte(`{"version":1}`)},
		}
	}
	return f
}

// describe lists what a generation holds, with SHA-256 sums, which the image itself does not use.
func (f full) describe(n uint64) (lines []string) {
	line := func(part, name, kind string, bytes int, sum []byte) {
		lines = append(lines, fmt.Sprintf("%d %s %s %s %d %x", n, part, name, kind, bytes, sum))
	}
	for _, m := range f.memories {
		total, sum := 0, sha256.New()
		for _, chunk := range m.chunks {
			total += len(chunk.content)
			_, _ = sum.Write(binary.LittleEndian.AppendUint64(nil, chunk.address))
			_, _ = sum.Write(chunk.content)
		}
		line("gpu", m.name, "memory", total, sum.Sum(nil))
	}
	for part, files := range map[string]map[string][]byte{"gpu": f.gpu, "cpu": f.cpu, "file": f.saved} {
		for name, content := range files {
			sum := sha256.Sum256(content)
			line(part, name, "file", len(content), sum[:])
		}
	}
	slices.Sort(lines)
	return lines
}

// TestWriteFull writes the full image if its flag is set.
func TestWriteFull(t *testing.T) {
	path := *writeFull
	if path == "" {
		path = t.TempDir()
	}
	dir := filepath.Join(path, "full")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := initDir(t, dir)
	var lines []string
	for n := uint64(1); n <= 3; n++ {
		writeFullGeneration(t, d, n)
		lines = append(lines, fullGeneration(n).describe(n)...)
	}
	if found := problems(t, dir); len(found) > 0 {
		t.Fatal(found)
	}
	compareFull(t, d, lines)
	if err := os.WriteFile(filepath.Join(path, "full.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func writeFullGeneration(t *testing.T, d *Dir, n uint64) {
	t.Helper()
	ctx, f := context.Background(), fullGeneration(n)
	transaction, err := d.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = transaction.Abort() }()
	known, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	m := fullManifest(n, f)
	for _, part := range []struct {
		to    *string
		files map[string][]byte
		more  func(*contents.Writer) ([]image.Entry, error)
	}{{&m.Processes[0].GPU.Tree, f.gpu, f.putMemories}, {&m.CPU.Tree, f.cpu, nil}} {
		pack, err := transaction.NewPack()
		if err != nil {
			t.Fatal(err)
		}
		defer pack.Close()
		w := contents.NewWriter(pack, known, contents.WriterOptions{Compress: f.compress})
		tree := &image.Tree{}
		if part.more != nil {
			if tree.Entries, err = part.more(w); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range sortedNames(part.files) {
			entry, err := w.PutFile(ctx, name, bytes.NewReader(part.files[name]))
			if err != nil {
				t.Fatal(err)
			}
			tree.Entries = append(tree.Entries, entry)
		}
		if len(tree.Entries) > 0 {
			h, err := w.PutTree(ctx, tree)
			if err != nil {
				t.Fatal(err)
			}
			*part.to = h.String()
		}
		if part.more == nil {
			for _, path := range sortedNames(f.saved) {
				saved := savedFile(t, w, path, f.saved[path])
				saved.Library = path == fullLibrary
				m.Files = append(m.Files, saved)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := image.SealManifest(m, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := transaction.Commit(ctx, sealed); err != nil {
		t.Fatal(err)
	}
}

func (f full) putMemories(w *contents.Writer) (all []image.Entry, err error) {
	for _, m := range f.memories {
		entry := image.Entry{Kind: image.Memory, Name: m.name}
		for _, chunk := range m.chunks {
			h, _, err := w.Put(context.Background(), chunk.content)
			if err != nil {
				return nil, err
			}
			entry.Bytes += uint64(len(chunk.content))
			entry.Chunks = append(
				entry.Chunks,
				image.Chunk{Address: chunk.address, Bytes: uint32(len(chunk.content)), Hash: h},
			)
		}
		all = append(all, entry)
	}
	return all, nil
}

func fullManifest(n uint64, f full) *image.Manifest {
	m := &image.Manifest{
		Version: image.Version, Generation: n, Created: time.Date(2026, 11, 21, 12, 0, int(n), 0, time.UTC),
		Phos: "0.3.0", Group: "ranks",
		Host:  image.Host{Name: "golden", Kernel: "6.1.0-golden", Arch: "x86_64", Boot: "0dd0"},
		Owner: image.Owner{UID: 1000, GID: 1001, Groups: []uint32{1001, 27}, Name: "gold"}, Kinds: f.kinds,
		Processes: []image.Process{{
			PID: 7, Parent: 1, Command: "train", Threads: 3, GPU: &image.GPUHalf{
				Session: 12, SessionPath: "/run/phos/sessions/12/session",
				ArenaPath: "/run/phos/sessions/12/arena", ArenaBytes: 16 << 30,
				Library: fullLibrary, Gpus: "0", Job: "night", MemoryBytes: 9, PinnedBytes: 8, WrittenBytes: 7,
				SharedBytes: 6, Wire: 5,
				Objects: map[string]uint64{"stream": 2, "module": 1},
				Devices: []image.Device{
					{Ordinal: 0, Name: "a GPU", UUID: "GPU-1", MemoryBytes: 1 << 30, Capability: "9.0"},
				},
			},
		}, {PID: 8, Parent: 7, Command: "loader", Threads: 1}},
		Stats: image.Stats{PauseMicroseconds: 1234, WrittenBytes: 77, SharedBytes: 11},
	}
	if f.kinds == nil {
		m.CPU = image.CPUHalf{CRIU: "4.1", Bytes: 4_196_110}
		m.Endpoints = []image.Endpoint{
			{
				ID:          1,
				Kind:        "terminal",
				Key:         "tty[8803:5]",
				Descriptors: []string{"pid 7 fd 0"},
				Standard:    0,
				Rows:        24,
				Columns:     80,
			},
		}
		m.Files = []image.SavedFile{{Path: fullLengthOnly, Bytes: 1 << 40, Mode: 0o600}}
	}
	return m
}

// compareFull compares what an image holds with a description.
func compareFull(t *testing.T, d *Dir, want []string) {
	t.Helper()
	reader, done, err := d.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	var got []string
	for n := uint64(1); n <= 3; n++ {
		sealed, err := d.Manifest(n)
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := image.OpenSealed(sealed, []image.Key{testKey})
		if err != nil {
			t.Fatal(err)
		}
		lines := describeTree(t, reader, fmt.Sprintf("%d gpu", n), treeOf(t, reader, m.Processes[0].GPU.Tree))
		if m.CPU.Tree != "" {
			lines = append(lines, describeTree(t, reader, fmt.Sprintf("%d cpu", n), treeOf(t, reader, m.CPU.Tree))...)
		}
		for _, saved := range m.Files {
			if saved.Hash == "" {
				continue
			}
			entry, err := side{m, reader}.savedEntry(saved)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(
				lines,
				describeTree(t, reader, fmt.Sprintf("%d file", n), &image.Tree{Entries: []image.Entry{entry}})...)
		}
		slices.Sort(lines)
		got = append(got, lines...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the image holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func describeTree(t *testing.T, reader *contents.Reader, prefix string, tree *image.Tree) (lines []string) {
	t.Helper()
	buffer := make([]byte, image.ChunkBytes)
	for _, entry := range tree.Entries {
		sum, kind := sha256.New(), map[image.Kind]string{image.File: "file", image.Memory: "memory"}[entry.Kind]
		for _, chunk := range entry.Chunks {
			if err := reader.ReadChunk(chunk, buffer[:chunk.Bytes]); err != nil {
				t.Fatal(err)
			}
			if entry.Kind == image.Memory {
				_, _ = sum.Write(binary.LittleEndian.AppendUint64(nil, chunk.Address))
			}
			_, _ = sum.Write(buffer[:chunk.Bytes])
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d %x", prefix, entry.Name, kind, entry.Bytes, sum.Sum(nil)))
	}
	return lines
}

// TestFullGolden reads the full image of every version.
func TestFullGolden(t *testing.T) {
	for version := 1; version <= image.Version; version++ {
		golden := filepath.Join("testdata", "golden", fmt.Sprintf("v%d", version))
		text, err := os.ReadFile(filepath.Join(golden, "full.txt"))
		if err != nil {
			t.Fatal(err)
		}
		path := t.TempDir()
		if err := os.CopyFS(path, os.DirFS(filepath.Join(golden, "full"))); err != nil {
			t.Fatal(err)
		}
		if found := problems(t, path); len(found) > 0 {
			t.Errorf("version %d: %v", version, found)
		}
		d := initDir(t, path)
		compareFull(t, d, strings.Split(strings.TrimSpace(string(text)), "\n"))
		if m, err := d.Inspect(3); err != nil || !m.Partial() {
			t.Errorf("version %d: generation 3: %+v, %v", version, m, err)
		}
	}
}
