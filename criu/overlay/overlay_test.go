package overlay

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/criu/imagefile"
)

const pid = 77

// memory is what each page holds, by its address: a number that fills it.
type memory map[uint64]uint64

func page(number uint64) []byte {
	return bytes.Repeat(binary.LittleEndian.AppendUint64(nil, number), int(pageBytes)/8)
}

// images returns the list and the content of all pages, as a whole copy has them.
func (m memory) images() (list, pages []byte) {
	var addresses []uint64
	for address := range m {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	of := imagefile.Pagemap{ID: pid}
	for _, address := range addresses {
		pages = append(pages, page(m[address])...)
		if last := len(of.Pages) - 1; last >= 0 && of.Pages[last].End == address && rand.IntN(9) > 0 {
			of.Pages[last].End += pageBytes
			continue
		}
		of.Pages = append(of.Pages, imagefile.Pages{Start: address, End: address + pageBytes})
	}
	return imagefile.EncodePagemap(of), pages
}

// grown returns memory of about as many pages, in random runs.
func grown(pages int) memory {
	m := memory{}
	for at := uint64(1 << 30); len(m) < pages; at += uint64(rand.IntN(5)) * pageBytes {
		for range rand.IntN(700) {
			m[at] = rand.Uint64()
			at += pageBytes
		}
	}
	return m
}

// changed returns the same memory with some pages changed, gone and new.
func (m memory) changed(share float64) memory {
	next := memory{}
	for address, number := range m {
		switch chance := rand.Float64(); {
		case chance < share/2:
			next[address] = rand.Uint64()
		case chance < share*3/4:
		case chance < share:
			next[address], next[address+1<<40] = number, number
		default:
			next[address] = number
		}
	}
	return next
}

// older stores memory as an older generation.
func (m memory) older(t *testing.T, where string) ckpt.OlderImages {
	t.Helper()
	home, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	dir, err := store.Init(home)
	if err != nil {
		t.Fatal(err)
	}
	transaction, err := dir.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pack, err := transaction.NewPack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pack.Close() })
	writer := contents.NewWriter(pack, nil, contents.WriterOptions{})
	older := ckpt.OlderImages{Entries: map[string]image.Entry{}}
	list, pages := m.images()
	for name, content := range map[string][]byte{imagefile.PagemapName(pid): list, imagefile.PagesName(pid): pages} {
		if older.Entries[where+name], err = writer.PutFile(t.Context(), name, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if older.Reader, err = contents.NewReader([]*os.File{pack}); err != nil {
		t.Fatal(err)
	}
	return older
}

// write writes memory as a fresh copy.
func (m memory) write(t *testing.T) *os.File {
	t.Helper()
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	list, pages := m.images()
	for name, content := range map[string][]byte{imagefile.PagemapName(pid): list, imagefile.PagesName(pid): pages} {
		if err := os.WriteFile(filepath.Join(dir.Name(), name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads images that may lie over a base.
func read(t *testing.T, dir *os.File, base memory) memory {
	t.Helper()
	list, err := readPagemap(dir, pid)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := os.ReadFile(filepath.Join(dir.Name(), imagefile.PagesName(pid)))
	if err != nil {
		t.Fatal(err)
	}
	m := memory{}
	for _, run := range list.Pages {
		for at := run.Start; at < run.End; at += pageBytes {
			if run.InParent {
				number, has := base[at]
				if !has {
					t.Fatalf("the base has no page at %#x", at)
				}
				m[at] = number
				continue
			}
			m[at] = binary.LittleEndian.Uint64(pages)
			if !bytes.Equal(pages[:pageBytes], page(m[at])) {
				t.Fatalf("the page at %#x is torn", at)
			}
			pages = pages[pageBytes:]
		}
	}
	if len(pages) > 0 {
		t.Errorf("%d bytes are left", len(pages))
	}
	return m
}

// TestLay: what remains of a copy, over its base, is the copy.
func TestLay(t *testing.T) {
	for _, share := range []float64{0, 0.01, 0.3, 0.9} {
		base := grown(5000)
		now := base.changed(share)
		for _, where := range []string{"parent/", "parent/parent/"} {
			dir := now.write(t)
			needed, err := (&Layer{dir, base.older(t, where), MaxRuns}).Lay(t.Context(), pid)
			if err != nil {
				t.Fatal(err)
			}
			if lies := len(needed) == 2; lies != (share < 0.5) {
				t.Errorf("%v changed: lies over a base: %v", share, lies)
			}
			got := read(t, dir, base)
			if len(got) != len(now) {
				t.Errorf("%v changed: %d pages, want %d", share, len(got), len(now))
			}
			for address, number := range now {
				if got[address] != number {
					t.Fatalf("%v changed: the page at %#x is wrong", share, address)
				}
			}
		}
	}
}

// TestLayOverNone: a copy stays whole if the older generation has no base for it, or a damaged one.
func TestLayOverNone(t *testing.T) {
	now := grown(3000)
	damaged := now.older(t, "parent/")
	entry := damaged.Entries["parent/"+imagefile.PagesName(pid)]
	entry.Chunks = slices.Clone(entry.Chunks)
	entry.Chunks[1].Hash[3]++
	damaged.Entries["parent/"+imagefile.PagesName(pid)] = entry
	short := now.older(t, "parent/")
	entry.Bytes, entry.Chunks = 4096, entry.Chunks[:1]
	short.Entries["parent/"+imagefile.PagesName(pid)] = entry
	for name, older := range map[string]ckpt.OlderImages{
		"none": {Entries: map[string]image.Entry{}}, "damaged": damaged, "short": short,
		"of the cut": now.older(t, ""),
	} {
		dir := now.write(t)
		if needed, err := (&Layer{dir, older, MaxRuns}).Lay(t.Context(), pid); err != nil || needed != nil {
			t.Errorf("%s: %v, %v", name, needed, err)
		}
		if got := read(t, dir, nil); len(got) != len(now) {
			t.Errorf("%s: %d pages, want %d", name, len(got), len(now))
		}
	}
}

// TestLayBounds: a copy stays whole if it would be in too many pieces, or needs hardly any of the
// base; chunks that it does not need are not carried on.
func TestLayBounds(t *testing.T) {
	base := grown(6000)
	now := base.changed(0.2)
	if needed, err := (&Layer{now.write(t), base.older(t, "parent/"), 100}).Lay(t.Context(), pid); err != nil || needed != nil {
		t.Errorf("with 100 runs: %d files, %v", len(needed), err)
	}
	var addresses []uint64
	for address := range base {
		addresses = append(addresses, address)
	}
	slices.Sort(addresses)
	for kept, want := range map[int]bool{2500: false, 4000: true} {
		part := memory{}
		for _, address := range addresses[:kept] {
			part[address] = base[address]
		}
		needed, err := (&Layer{part.write(t), base.older(t, "parent/"), MaxRuns}).Lay(t.Context(), pid)
		if err != nil || (needed != nil) != want {
			t.Fatalf("%d of 6000 pages: %d files, %v", kept, len(needed), err)
		}
		if !want {
			continue
		}
		carried := 0
		for _, chunk := range needed[imagefile.PagesName(pid)].Chunks {
			if !chunk.Hash.IsZero() {
				carried++
			}
		}
		if whole := (kept*int(pageBytes) + image.ChunkBytes - 1) / image.ChunkBytes; carried != whole {
			t.Errorf("%d chunks are carried, want %d", carried, whole)
		}
	}
}
