package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/pool"
	"github.com/phos-gpu/phos/ckpt/store/contents"
)

// sweep is a Prune in progress.
type sweep struct {
	dir    *Dir
	writer held
	done   *Pruned
	files  []*os.File
	reader *contents.Reader
	// live are the contents that kept generations need. A content that is stored in two encodings
	// is kept in both.
	live map[image.Hash]bool
	// progress may be nil.
	progress func(doneBytes, totalBytes uint64)
	// homes are the final locations of the live contents.
	homes map[home]decision
}

type home struct {
	hash     image.Hash
	encoding image.Encoding
}

type decision struct {
	file  *os.File
	place image.Place
}

// candidate is a pack that may be removed or rewritten.
type candidate struct {
	file      *os.File
	owner     owner
	bytes     uint64
	liveBytes uint64
	live      []image.Place
}

// owner is the owner of a file.
type owner struct{ uid, gid uint32 }

// ownerOf returns the user and group that own a file.
func ownerOf(info os.FileInfo) owner {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return owner{stat.Uid, stat.Gid}
	}
	return owner{}
}

func (s *sweep) close() { closeAll(s.files) }

// mark finds the live contents.
func (s *sweep) mark(ctx context.Context) (err error) {
	if s.files, err = s.dir.packsUpTo(maxNames); err != nil {
		return err
	}
	if s.reader, err = contents.NewReader(s.files); err != nil {
		return err
	}
	s.live = map[image.Hash]bool{}
	for _, n := range s.done.Kept {
		m, err := s.dir.Inspect(n)
		if err == nil {
			err = walk(ctx, s.reader, m, func(of string, chunk image.Chunk) error {
				if !s.reader.Has(chunk.Hash) {
					return fmt.Errorf("%s: %w: %s", of, contents.ErrMissing, chunk.Hash)
				}
				s.live[chunk.Hash] = true
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("nothing was removed, because generation %d, which would be kept, is damaged: %w", n, err)
		}
	}
	return nil
}

// selectPacks returns the packs that can be removed and those worth rewriting.
func (s *sweep) selectPacks() (dead, poor []*candidate, err error) {
	candidates, err := s.candidates()
	if err != nil {
		return nil, nil, err
	}
	s.homes = map[home]decision{}
	small := 0
	for _, c := range candidates {
		c.live = slices.DeleteFunc(c.live, func(p image.Place) bool { return !s.mustKeep(c, p) })
		c.liveBytes = liveBytes(c.live)
		if c.bytes < smallPackBytes {
			small++
		}
	}
	for _, c := range candidates {
		switch {
		case len(c.live) == 0:
			dead = append(dead, c)
		case c.liveBytes*wasteful < c.bytes, small > manySmall && c.bytes < smallPackBytes:
			poor = append(poor, c)
		}
	}
	// A new pack has one owner, so that all users can read the same contents as before.
	if len(poor) > 0 {
		poor = slices.DeleteFunc(poor, func(c *candidate) bool { return c.owner != poor[0].owner })
	}
	return dead, poor, nil
}

// estimate computes what packs would do, and does nothing.
func (s *sweep) estimate() error {
	dead, poor, err := s.selectPacks()
	if err != nil {
		return err
	}
	s.done.PacksRemoved, s.done.PacksRewritten = len(dead), len(poor)
	for _, c := range dead {
		s.done.FreedBytes += c.bytes
	}
	for _, c := range poor {
		s.done.FreedBytes += c.bytes - min(c.bytes, c.liveBytes)
	}
	return nil
}

// packs removes and rewrites packs.
func (s *sweep) packs(ctx context.Context) error {
	dead, poor, err := s.selectPacks()
	if err != nil {
		return err
	}
	written, err := s.rewrite(ctx, poor)
	if errors.Is(err, image.ErrMalformed) {
		// Damage cannot be repaired. The packs stay, so that Verify still finds it.
		s.done.Damage, poor, err = err.Error(), nil, nil
	}
	if err != nil {
		return err
	}
	s.done.PacksRemoved, s.done.PacksRewritten = len(dead), len(poor)
	for _, c := range append(dead, poor...) {
		if err := s.dir.packs.remove(filepath.Base(c.file.Name())); err != nil {
			return err
		}
		s.done.FreedBytes += c.bytes
	}
	s.done.FreedBytes -= min(s.done.FreedBytes, written)
	return s.dir.packs.sync()
}

// candidates returns the packs, the ones with most live data first. Packs with a damaged index are
// left alone, but empty files can be removed.
func (s *sweep) candidates() (all []*candidate, err error) {
	for _, file := range s.files {
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		places, err := contents.LoadIndex(file)
		if errors.Is(err, image.ErrMalformed) && info.Size() > 0 {
			continue
		}
		if info.Size() == 0 {
			err = nil // left by an interrupted writer
		}
		if err != nil {
			return nil, err
		}
		c := &candidate{file: file, owner: ownerOf(info), bytes: diskBytes(info)}
		for _, each := range places {
			if s.live[each.Hash] {
				c.live = append(c.live, each)
			}
		}
		c.liveBytes = liveBytes(c.live)
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b *candidate) int {
		return cmp.Compare(float64(b.liveBytes)/float64(b.bytes+1), float64(a.liveBytes)/float64(a.bytes+1))
	})
	return all, nil
}

// liveBytes returns the size of places in a pack.
func liveBytes(places []image.Place) (total uint64) {
	for _, each := range places {
		total += image.RecordHeaderBytes + uint64(each.StoredBytes)
	}
	return total
}

// mustKeep reports whether a candidate must keep a content because no other pack has an undamaged
// copy.
func (s *sweep) mustKeep(c *candidate, p image.Place) bool {
	key := home{p.Hash, p.Encoding}
	other, taken := s.homes[key]
	if !taken {
		s.homes[key] = decision{c.file, p}
		return true
	}
	return contents.Check(other.file, other.place) != nil
}

// rewrite copies the live contents of some packs into a new one and returns its length.
func (s *sweep) rewrite(ctx context.Context, poor []*candidate) (bytes uint64, err error) {
	if len(poor) == 0 {
		return 0, nil
	}
	id, pack, err := newPack(s.writer.tmp, s.dir.store)
	if err != nil {
		return 0, err
	}
	name := packName(id)
	defer pack.Close()
	// If root works in a user's directory, the new pack belongs to that user. Without the right to
	// change owners, all packs belong to this user anyway.
	if user := poor[0].owner; user.uid != uint32(os.Geteuid()) {
		_ = pack.Chown(int(user.uid), int(user.gid))
	}
	w := contents.NewWriter(pack, nil, contents.WriterOptions{})
	var moved atomic.Uint64
	var total uint64
	for _, c := range poor {
		total += c.liveBytes
	}
	for _, c := range poor {
		slices.SortFunc(c.live, func(a, b image.Place) int { return cmp.Compare(a.Offset, b.Offset) })
		err := pool.Each(ctx, pool.All(), c.live, func(each image.Place) error {
			now := moved.Add(image.RecordHeaderBytes + uint64(each.StoredBytes))
			if s.progress != nil {
				defer func() { s.progress(now, total) }()
			}
			return contents.Move(w, c.file, each)
		})
		if err != nil {
			_ = s.writer.tmp.remove(name)
			return 0, err
		}
	}
	err = w.Close()
	if err == nil {
		err = pack.Sync()
	}
	if err == nil {
		err = s.writer.tmp.rename(name, s.dir.packs, name)
	}
	if err != nil {
		_ = s.writer.tmp.remove(name)
		return 0, err
	}
	info, err := pack.Stat()
	if err != nil {
		return 0, err
	}
	return diskBytes(info), s.dir.packs.sync()
}

// Sizes returns the disk space of all packs, and how much of it the generations need. Prune
// eventually frees the rest.
func (d *Dir) Sizes(ctx context.Context) (packs int, bytes, neededBytes uint64, err error) {
	s := &sweep{dir: d, done: &Pruned{}}
	defer s.close()
	if s.done.Kept, err = d.Generations(); err == nil {
		err = s.mark(ctx)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	for h := range s.live {
		neededBytes += s.reader.StoredLength(h)
	}
	return len(s.files), bytesOf(s.files), neededBytes, nil
}

// DiskSize returns the disk space of all packs. It also works on damaged images.
func (d *Dir) DiskSize() (packs int, bytes uint64, err error) {
	files, err := d.packsUpTo(maxNames)
	if err != nil {
		return 0, 0, err
	}
	defer closeAll(files)
	return len(files), bytesOf(files), nil
}

// bytesOf returns the disk space of packs.
func bytesOf(packs []*os.File) (bytes uint64) {
	for _, file := range packs {
		if info, err := file.Stat(); err == nil {
			bytes += diskBytes(info)
		}
	}
	return bytes
}
