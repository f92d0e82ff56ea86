package writetrack

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrUnsupported is returned for a file that is no userfaultfd, or if the kernel cannot track
// writes with it.
var ErrUnsupported = errors.New("this kernel does not track writes by userfaultfd")

// ErrChanged is returned when memory is not registered, or no longer.
var ErrChanged = errors.New("memory is not registered")

// link is what /proc says a userfaultfd is.
const link = "anon_inode:[userfaultfd]"

// Check returns an error unless a file is a userfaultfd. Nothing else must be asked of a file that
// another user has sent: an answer may take forever.
func Check(file *os.File) error {
	if is, err := os.Readlink(proc.OwnFile(int(file.Fd()))); err != nil {
		return err
	} else if is != link {
		return fmt.Errorf("%w: it is %.60q", ErrUnsupported, is)
	}
	return nil
}

// Enable prepares a userfaultfd that a program has made. It is done once.
func Enable(file *os.File) error {
	if err := Check(file); err != nil {
		return err
	}
	if err := enable(file); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return nil
}

// Tracker tracks writes of a process.
type Tracker struct {
	uffd, pagemap *os.File
	found         []pages
}

// maxFound is how many runs of pages the kernel returns at once.
const maxFound = 4096

// NewTracker returns what tracks writes with an enabled userfaultfd and the open pagemap of the
// same process. It closes neither.
func NewTracker(uffd, pagemap *os.File) *Tracker {
	return &Tracker{uffd: uffd, pagemap: pagemap, found: make([]pages, maxFound)}
}

// Register begins to track a mapping. The first Protect finds all of its pages.
func (t *Tracker) Register(start, end uint64) error {
	err := register(t.uffd, span{start, end - start})
	if err == nil { // a page that was moved here may be protected, on older kernels
		err = MarkWritten(t.uffd, start, end)
	}
	if err != nil {
		return fmt.Errorf("track writes from %#x to %#x: %w", start, end, err)
	}
	return nil
}

// Release ends tracking in a part of a process's address space, whatever is mapped there now.
func Release(uffd *os.File, pid int, start, end uint64) error {
	if end != Everything && unregister(uffd, span{start, end - start}) == nil {
		return nil
	}
	for m, err := range proc.EachMapping(pid) {
		if proc.Gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		from, to := max(m.Start, start), min(m.End, end)
		if from < to {
			_ = unregister(uffd, span{from, to - from}) // most of what is not tracked cannot be
		}
	}
	return nil
}

// Everything is the end of all address spaces.
const Everything = ^uint64(0)

// Protect finds the pages of a registered range that were written since they were protected last,
// and protects them. Their content must be read after that. Pages that were never touched are not
// found, nor protected. After an error pages may be protected that were not found, and the caller
// releases the range. The error is ErrChanged if some of it is not registered.
func (t *Tracker) Protect(start, end uint64, found func(start, end uint64) error) error {
	for start < end {
		count, next, err := protectWritten(t.pagemap, start, end, t.found)
		if errors.Is(err, unix.EPERM) {
			err = ErrChanged
		}
		if err != nil {
			return fmt.Errorf("scan from %#x to %#x: %w", start, end, err)
		}
		for _, each := range t.found[:count] {
			if err := found(each.start, each.end); err != nil {
				return err
			}
		}
		if next <= start {
			return fmt.Errorf("scan from %#x to %#x: it does not go on", start, end)
		}
		start = next
	}
	return nil
}

// MarkWritten lets memory count as written. Memory that is not tracked does so anyway.
func MarkWritten(uffd *os.File, start, end uint64) error {
	page := uint64(os.Getpagesize())
	return markWritten(uffd, start&^(page-1), (end+page-1)&^(page-1), page)
}

// markWritten is MarkWritten for whole pages. The kernel ends at the first mapping that is not
// tracked, so what is behind it is tried by itself.
func markWritten(uffd *os.File, start, end, page uint64) error {
	err := unprotect(uffd, span{start, end - start})
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if end-start == page {
		return nil
	}
	middle := start + (end-start)/page/2*page
	return errors.Join(markWritten(uffd, start, middle, page), markWritten(uffd, middle, end, page))
}
