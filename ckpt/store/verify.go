package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// Problem is what is wrong with one file of an image.
type Problem struct {
	// File is the file's name in the directory.
	File string `json:"file"`
	What string `json:"what"`
	// Touches are the generations that need contents which were lost here. A content with a good
	// copy elsewhere is not lost.
	Touches []Touch `json:"touches,omitempty"`
}

// Touch is a generation that damage makes unusable. Parts say what is affected: "gpu of pid 7,
// gpu0", "cpu, 7/pages-1.img".
type Touch struct {
	Generation uint64   `json:"generation"`
	Parts      []string `json:"parts"`
}

func (p Problem) String() string { return p.File + ": " + p.What }

// Verified is the result of Verify.
type Verified struct {
	Problems    []Problem `json:"problems"`
	Generations int       `json:"generations"`
	Packs       int       `json:"packs"`
	Contents    int       `json:"contents"`
	Bytes       uint64    `json:"bytes"`
}

// Verify reads and checks every byte of the image, but not the seals. progress may be nil;
// it is called by several goroutines. An error means that something could not be checked.
func (d *Dir) Verify(ctx context.Context, progress func(doneBytes, totalBytes uint64)) (*Verified, error) {
	v := &verifying{dir: d, good: map[image.Hash]uint32{}, lost: map[image.Hash][]int{}, progress: progress}
	if v.progress == nil {
		v.progress = func(uint64, uint64) {}
	}
	if err := v.strangers(); err != nil {
		return nil, err
	}
	packs, err := d.packsUpTo(maxNames)
	if err != nil {
		return nil, err
	}
	defer closeAll(packs)
	for _, pack := range packs {
		if info, err := pack.Stat(); err == nil {
			v.total += uint64(info.Size())
		}
	}
	for _, pack := range packs {
		if err := v.pack(ctx, pack); err != nil {
			return nil, err
		}
	}
	err = v.generations(ctx)
	v.found.Packs, v.found.Contents, v.found.Bytes = len(packs), len(v.good), v.done.Load()
	return &v.found, err
}

// verifying is a Verify in progress.
type verifying struct {
	dir      *Dir
	found    Verified
	progress func(doneBytes, totalBytes uint64)
	total    uint64
	done     atomic.Uint64
	// readable are the packs with a valid header.
	readable []*os.File
	// good are contents that were read and match their hashes, with their lengths.
	good map[image.Hash]uint32
	// lost are contents with unreadable copies, with the numbers of their problems.
	lost map[image.Hash][]int
}

// bad records a problem and returns its number.
func (v *verifying) bad(file, format string, arguments ...any) int {
	v.found.Problems = append(v.found.Problems, Problem{File: file, What: fmt.Sprintf(format, arguments...)})
	return len(v.found.Problems) - 1
}

// strangers reports files that do not belong to the image. Files in tmp do not matter.
func (v *verifying) strangers() error {
	d := v.dir
	for _, place := range []struct {
		folder
		prefix string
		ours   func(string) bool
	}{{d.root, "", isTopName}, {d.generations, generationsName, isGenerationName}, {d.packs, packsName, isPackName}} {
		names, err := place.names()
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if !place.ours(name) {
				v.bad(path.Join(place.prefix, name), "does not belong to the image")
			}
		}
	}
	raw, err := d.root.read(lockName, 0)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(raw) == 0 {
		return nil
	}
	v.bad(lockName, "is not an empty file: %v", err)
	return nil
}

// pack checks every byte of one pack.
func (v *verifying) pack(ctx context.Context, pack *os.File) error {
	name := path.Join(packsName, path.Base(pack.Name()))
	before := v.done.Load()
	info, err := pack.Stat()
	if err != nil {
		return err
	}
	header, err := contents.LoadHeader(pack)
	if err == nil {
		v.readable = append(v.readable, pack)
	}
	if id, _ := parsePack(path.Base(pack.Name())); err == nil && header.Pack != id {
		err = fmt.Errorf("%w: the header is that of pack %s", image.ErrMalformed, header.Pack)
	}
	if err != nil {
		v.lose(v.bad(name, "%v", err), pack)
	}
	index, indexErr := contents.LoadIndex(pack)
	if indexErr != nil {
		if err == nil {
			v.lose(v.bad(name, "%v", indexErr), pack)
		}
		index = contents.Scan(pack)
	}
	records := index
	if err == nil && indexErr == nil {
		laid := contents.Layout(
			pack,
			header,
			index,
			func(format string, arguments ...any) { v.bad(name, format, arguments...) },
		)
		v.compare(name, laid, index)
		records = union(index, laid)
	}
	err = v.contents(ctx, pack, name, records)
	v.done.Store(before + uint64(info.Size()))
	v.progress(v.done.Load(), v.total)
	return err
}

// compare checks that the index matches the content of the pack.
func (v *verifying) compare(name string, laid, index []image.Place) {
	stands := make(map[image.Place]bool, len(laid))
	for _, each := range laid {
		stands[each] = true
	}
	named := make(map[image.Hash]bool, len(index))
	for _, each := range index {
		named[each.Hash] = true
		if !stands[each] {
			v.bad(name, "the index has content %s at %d, but the pack does not", each.Hash, each.Offset)
		}
	}
	for _, each := range laid {
		if !named[each.Hash] {
			v.bad(name, "the index lacks content %s at %d", each.Hash, each.Offset)
		}
	}
}

// union returns a and those of b that are not in a.
func union(a, b []image.Place) []image.Place {
	seen := make(map[image.Place]bool, len(a))
	for _, each := range a {
		seen[each] = true
	}
	for _, each := range b {
		if !seen[each] {
			a = append(a, each)
		}
	}
	return a
}

// contents checks the contents at places, with all processors, and records the good ones.
func (v *verifying) contents(ctx context.Context, pack *os.File, name string, places []image.Place) error {
	type checked struct {
		place image.Place
		err   error
	}
	all := make([]*checked, len(places))
	for i := range all {
		all[i] = &checked{place: places[i]}
	}
	err := pool.Each(ctx, pool.All(), all, func(each *checked) error {
		each.err = contents.Check(pack, each.place)
		v.progress(v.done.Add(uint64(each.place.StoredBytes)), v.total)
		return nil
	})
	if err != nil {
		return err
	}
	for _, each := range all {
		hash := each.place.Hash
		if each.err == nil {
			v.good[hash] = each.place.ContentBytes
			continue
		}
		problem := v.bad(name, "%v", each.err)
		v.lost[hash] = append(v.lost[hash], problem)
	}
	return nil
}

// generations checks the manifests, and that everything they need is good.
func (v *verifying) generations(ctx context.Context) error {
	numbers, err := v.dir.Generations()
	if err != nil {
		return err
	}
	// Damage of headers and indices was already reported; but a disk may fail only now.
	reader, err := contents.NewReader(v.readable)
	if err != nil {
		v.bad(packsName, "%v", err)
		reader, _ = contents.NewReader(nil)
	}
	for _, n := range numbers {
		name := path.Join(generationsName, generationName(n))
		v.found.Generations++
		m, err := v.dir.Inspect(n)
		if err == nil {
			err = v.generation(ctx, reader, m)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.EACCES):
			return err
		case err != nil:
			v.bad(name, "%v", err)
		}
	}
	return nil
}

// needed returns an error for a content that is not good.
func (v *verifying) needed(of string, chunk image.Chunk) error {
	bytes, good := v.good[chunk.Hash]
	switch {
	case !good:
		return fmt.Errorf("%s, at %#x: %w or damaged: %s", of, chunk.Address, contents.ErrMissing, chunk.Hash)
	case chunk.Bytes != 0 && chunk.Bytes != bytes:
		return fmt.Errorf(
			"%s, at %#x: %w: a chunk of %d bytes has %d",
			of,
			chunk.Address,
			image.ErrMalformed,
			chunk.Bytes,
			bytes,
		)
	}
	return nil
}
