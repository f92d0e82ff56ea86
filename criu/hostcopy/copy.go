package hostcopy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/imagefile"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// Rounds end when few bytes were written since the last one, when they get hardly fewer, or after
// so many.
const (
	fewBytes  = 1 << 20
	hardly    = 0.7
	maxRounds = 10
)

// Copied is the memory of processes that was copied, and is tracked until it is released.
type Copied struct {
	into *os.File
	all  []*copying
}

// Copy copies the memory of processes into a directory. Their descriptors are closed in any case.
// The caller releases what was copied after the dump.
func Copy(ctx context.Context, into *os.File, processes []Process) (*Copied, error) {
	copied := &Copied{into: into}
	var err error
	for _, each := range processes {
		if err != nil {
			err = errors.Join(err, each.Userfaultfd.Close())
			continue
		}
		c, failed := begin(each, into)
		switch {
		case failed == nil:
			copied.all = append(copied.all, c)
		case proc.Gone(failed):
			err = Discard(into, each.Inner)
		default:
			err = failed
		}
	}
	if err == nil {
		err = copied.rounds(ctx)
	}
	for _, each := range copied.all {
		if err == nil {
			err = each.writePagemap(into)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy memory: %w", err), copied.Release())
	}
	return copied, nil
}

// Release ends tracking.
func (c *Copied) Release() (err error) {
	for _, each := range c.all {
		err = errors.Join(err, each.release())
	}
	c.all = nil
	return err
}

// Discard removes the copy of a process, whose memory CRIU then writes itself.
func Discard(from *os.File, inner int) error {
	var failed error
	for _, name := range []string{imagefile.PagemapName(inner), imagefile.PagesName(uint64(inner))} {
		if err := unix.Unlinkat(int(from.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			failed = errors.Join(failed, &os.PathError{Op: "remove", Path: name, Err: err})
		}
	}
	return failed
}

// rounds copies all, and then again what was written.
func (c *Copied) rounds(ctx context.Context) error {
	var before uint64
	for round := range maxRounds {
		var written uint64
		for _, each := range slices.Clone(c.all) {
			bytes, err := each.round(ctx, round == 0)
			if errors.Is(err, errDirect) || proc.Gone(err) || errors.Is(err, proc.ErrGone) {
				err = c.drop(each)
			}
			if err != nil {
				return err
			}
			written += bytes
		}
		if round > 0 && (written <= fewBytes || float64(written) > hardly*float64(before)) {
			break
		}
		before = written
	}
	return nil
}

// drop forgets a process that has ended, has called exec, or does direct I/O.
func (c *Copied) drop(one *copying) error {
	c.all = slices.DeleteFunc(c.all, func(each *copying) bool { return each == one })
	return errors.Join(one.release(), Discard(c.into, one.Inner))
}

// errDirect is returned for a process that has begun direct I/O.
var errDirect = errors.New("direct I/O")

// round copies what was written, and returns how much that was.
//
// Direct I/O looks pages up and writes them later. If that is on both sides of this round's
// protection and copy, its file is open in between.
func (c *copying) round(ctx context.Context, first bool) (bytes uint64, err error) {
	written, err := c.protect(ctx, first)
	if err != nil {
		return 0, err
	}
	if direct, err := proc.DirectIO(c.PID); err != nil {
		return 0, err
	} else if direct {
		return 0, errDirect
	}
	for _, each := range written {
		if ctx.Err() != nil {
			return bytes, context.Cause(ctx)
		}
		bytes += each.end - each.start
		if err := c.copy(each); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// protect protects the pages that were written, and returns those with a place. In the first round
// all get one. A mapping that is no longer what it was is left to CRIU.
func (c *copying) protect(ctx context.Context, first bool) (written []run, err error) {
	known := func(r run) { written = append(written, r) }
	unknown := c.markWritten
	if first {
		// While huge pages are split, the kernel may name pages twice, or out of order.
		unknown = func(start, end uint64) error {
			added, ok := c.slots.add(start, end)
			if !ok {
				return c.markWritten(start, end)
			}
			known(added)
			return nil
		}
	}
	c.mappings = slices.DeleteFunc(c.mappings, func(m proc.Mapping) bool {
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return false
		}
		err = c.tracker.Protect(m.Start, m.End, func(start, end uint64) error {
			return c.slots.split(start, end, known, unknown)
		})
		changed := errors.Is(err, writetrack.ErrChanged)
		if changed {
			err = writetrack.Release(c.Userfaultfd, c.PID, m.Start, m.End)
		}
		return changed
	})
	return written, err
}

// markWritten leaves pages without a place to CRIU.
func (c *copying) markWritten(start, end uint64) error {
	return writetrack.MarkWritten(c.Userfaultfd, start, end)
}

// writePagemap completes the images of a process.
func (c *copying) writePagemap(into *os.File) error {
	if err := c.pages.Truncate(int64(c.slots.bytes)); err != nil {
		return err
	}
	file, err := ckpt.CreateImage(into, imagefile.PagemapName(c.Inner))
	if err != nil {
		return err
	}
	_, err = file.Write(imagefile.EncodePagemap(c.list()))
	return errors.Join(err, file.Close())
}

// list returns the pages that have places.
func (c *copying) list() imagefile.Pagemap {
	list := imagefile.Pagemap{ID: uint64(c.Inner)}
	for _, each := range c.slots.runs {
		list.Pages = append(list.Pages, imagefile.Pages{Start: each.start, End: each.end})
	}
	return list
}
