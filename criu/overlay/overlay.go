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

// Lay leaves out of the copy of a process's memory, in a directory of images, what an older dump
// has. It returns the entries of the base, by the names that they have in their own directory; none
// if the copy stays whole, because the base has less than half of it.
func Lay(ctx context.Context, images *os.File, pid int, older ckpt.OlderImages) (map[string]image.Entry, error) {
	copied, err := openCopy(images, pid)
	if err != nil {
		return nil, err
	}
	defer copied.close()
	if copied.bytes < minBytes {
		return nil, nil
	}
	base, err := findBase(older, pid)
	if err != nil || base == nil { // what cannot be read cannot be a base
		return nil, nil //nolint:nilerr // the copy stays whole
	}
	same, err := compare(ctx, copied, base)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil || same.bytes() < copied.bytes/2 {
		return nil, nil //nolint:nilerr // the copy stays whole
	}
	if err := copied.leaveOut(same); err != nil {
		return nil, fmt.Errorf("memory of pid %d: %w", pid, err)
	}
	return base.entries, replacePagemap(images, pid, copied.list)
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

// leaveOut removes pages from the copy: those that remain move to the front, and the list says
// which are in the base.
func (c *copied) leaveOut(same pageSet) error {
	list := &imagefile.Pagemap{ID: c.list.ID}
	var from, to uint64
	buffer := make([]byte, 1<<20)
	for _, run := range c.list.Pages {
		for _, part := range same.split(run, from) {
			list.Pages = append(list.Pages, part)
			if bytes := part.End - part.Start; !part.InParent {
				if err := c.move(from, to, bytes, buffer); err != nil {
					return err
				}
				to += bytes
			}
			from += part.End - part.Start
		}
	}
	c.list = list
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
