package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/imagefile"
)

// minBytes is the least memory of a process for which it is worth it to read the older copy.
const minBytes = 8 << 20

// MaxRuns is how many runs of pages the lists of a tree may have that lie over others. The pager
// refuses trees with some times as many runs in all.
const MaxRuns = 1 << 20

// Layer lays the copies of a tree's processes over those of an older dump.
type Layer struct {
	Images *os.File
	Older  ckpt.OlderImages
	// Runs is how many runs the lists may still have.
	Runs int
}

// Lay leaves out of the copy of a process's memory what the older dump has. It returns the entries
// of the base, by the names that they have in their own directory; none if the copy stays whole: if
// less than half of it, or of the base, is the same, or that is in too many pieces.
func (l *Layer) Lay(ctx context.Context, pid int) (map[string]image.Entry, error) {
	images := l.Images
	copied, err := openCopy(images, pid)
	if err != nil {
		return nil, err
	}
	defer copied.close()
	if copied.bytes < minBytes {
		return nil, nil
	}
	base, err := findBase(l.Older, pid)
	if err != nil || base == nil { // what cannot be read cannot be a base
		return nil, nil //nolint:nilerr // the copy stays whole
	}
	same, err := compare(ctx, copied, base)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil || same.bytes() < max(copied.bytes, base.bytes)/2 {
		return nil, nil //nolint:nilerr // the copy stays whole
	}
	list := copied.without(same)
	if len(list.Pages) > l.Runs {
		return nil, nil
	}
	l.Runs -= len(list.Pages)
	if err := copied.leaveOut(ctx, list); err != nil {
		return nil, fmt.Errorf("memory of pid %d: %w", pid, err)
	}
	return base.entries(), replacePagemap(images, pid, list)
}

// copied is the copy of a process's memory.
type copied struct {
	list  *imagefile.Pagemap
	pages *os.File
	bytes uint64
}

func openCopy(images *os.File, pid int) (*copied, error) {
	list, err := readPagemap(images, pid)
	if err != nil {
		return nil, err
	}
	c := &copied{list: list}
	for _, run := range list.Pages {
		if run.InParent {
			return nil, fmt.Errorf("%w: the copy of pid %d is not whole", imagefile.ErrMalformed, pid)
		}
		c.bytes += run.End - run.Start
	}
	name := imagefile.PagesName(list.ID)
	fd, err := unix.Openat(int(images.Fd()), name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	c.pages = os.NewFile(uintptr(fd), name)
	return c, nil
}

func (c *copied) close() { _ = c.pages.Close() }

// readPagemap reads the list of pages in a directory of images.
func readPagemap(images *os.File, pid int) (*imagefile.Pagemap, error) {
	name := imagefile.PagemapName(pid)
	fd, err := unix.Openat(int(images.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content := make([]byte, info.Size()) // phosd has written it
	if _, err := file.ReadAt(content, 0); err != nil {
		return nil, err
	}
	return imagefile.ReadPagemap(content)
}

// replacePagemap writes another list of pages.
func replacePagemap(images *os.File, pid int, list *imagefile.Pagemap) error {
	name := imagefile.PagemapName(pid)
	if err := unix.Unlinkat(int(images.Fd()), name, 0); err != nil {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	file, err := ckpt.CreateImage(images, name)
	if err != nil {
		return err
	}
	_, err = file.Write(imagefile.EncodePagemap(*list))
	return errors.Join(err, file.Close())
}

// without returns the list of the copy without the pages that are in the base.
func (c *copied) without(inBase pageSet) *imagefile.Pagemap {
	list := &imagefile.Pagemap{ID: c.list.ID}
	var offset uint64
	for _, run := range c.list.Pages {
		list.Pages = append(list.Pages, inBase.split(run, offset)...)
		offset += run.End - run.Start
	}
	return list
}

// leaveOut removes the content of pages that are in the base, by a list of all: what remains moves
// to the front.
func (c *copied) leaveOut(ctx context.Context, list *imagefile.Pagemap) error {
	var from, to uint64
	buffer := make([]byte, 1<<20)
	for _, run := range list.Pages {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		bytes := run.End - run.Start
		if !run.InParent {
			if err := c.move(from, to, bytes, buffer); err != nil {
				return err
			}
			to += bytes
		}
		from += bytes
	}
	return c.pages.Truncate(int64(to))
}

// move moves bytes within the file towards its beginning.
func (c *copied) move(from, to, bytes uint64, buffer []byte) error {
	for done := uint64(0); done < bytes && from != to; {
		part := buffer[:min(uint64(len(buffer)), bytes-done)]
		if _, err := c.pages.ReadAt(part, int64(from+done)); err != nil {
			return err
		}
		if _, err := c.pages.WriteAt(part, int64(to+done)); err != nil {
			return err
		}
		done += uint64(len(part))
	}
	return nil
}
