package hostcopy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/imagefile"
	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/writetrack"
)

// Process is a process whose memory is copied.
type Process struct {
	proc.Identity
	// Inner is its pid in its own pid namespace, as CRIU names it.
	Inner int
	UID   uint32
	// Userfaultfd is its own, enabled.
	Userfaultfd *os.File
}

// copying is a process while it is copied. Its files keep to the address space that it had when
// they were opened: after an exec they read nothing.
type copying struct {
	Process
	memory, pagemap *os.File
	tracker         *writetrack.Tracker
	mappings        []proc.Mapping
	slots           slots
	pages           *os.File
	buffer          []byte
}

// bufferBytes is how much is copied at once.
const bufferBytes = 1 << 20

// begin opens a process and its image of pages, and begins to track it. The userfaultfd is closed
// after an error, too.
func begin(p Process, into *os.File) (*copying, error) {
	c := &copying{Process: p, buffer: make([]byte, bufferBytes)}
	if err := c.open(into); err != nil {
		return nil, errors.Join(err, c.release())
	}
	return c, nil
}

func (c *copying) open(into *os.File) (err error) {
	for _, each := range []struct {
		path string
		file **os.File
	}{{proc.Memory(c.PID), &c.memory}, {proc.Pagemap(c.PID), &c.pagemap}} {
		if *each.file, err = os.Open(each.path); err != nil {
			return err
		}
	}
	if c.Gone() { // or these are another process's
		return fmt.Errorf("pid %d: %w", c.PID, proc.ErrGone)
	}
	if c.pages, err = ckpt.CreateImage(into, imagefile.PagesName(uint64(c.Inner))); err != nil {
		return err
	}
	c.tracker = writetrack.NewTracker(c.Userfaultfd, c.pagemap)
	return c.register()
}

// register begins to track the mappings that can be. A checkpoint before may have been cut off
// while it tracked.
func (c *copying) register() error {
	if err := writetrack.Release(c.Userfaultfd, c.PID, 0, writetrack.Everything); err != nil {
		return err
	}
	for m, err := range proc.EachMapping(c.PID) {
		if err != nil {
			return err
		}
		if anonymous(&m) && c.tracker.Register(m.Start, m.End) == nil {
			c.mappings = append(c.mappings, m) // otherwise it counts as written
		}
	}
	return c.releaseOthers()
}

// releaseOthers ends tracking of what has been mapped since the mappings were read: it may be a
// file's.
func (c *copying) releaseOthers() error {
	for m, err := range proc.EachMapping(c.PID) {
		if err != nil {
			return err
		}
		if anonymous(&m) {
			continue
		}
		if err := writetrack.Release(c.Userfaultfd, c.PID, m.Start, m.End); err != nil {
			return err
		}
	}
	return nil
}

// anonymous reports whether a mapping is private memory without a file. CRIU does not take memory
// that the process cannot read from parent images.
func anonymous(m *proc.Mapping) bool {
	named := m.Path == "" || m.Path == "[heap]" || m.Path == "[stack]" || strings.HasPrefix(m.Path, "[anon:")
	return m.Inode == 0 && !m.Shared() && m.Readable() && named
}

// release ends tracking, and closes the files.
func (c *copying) release() error {
	return errors.Join(writetrack.Release(c.Userfaultfd, c.PID, 0, writetrack.Everything), c.close())
}

// close closes the files.
func (c *copying) close() (err error) {
	for _, file := range []*os.File{c.memory, c.pagemap, c.pages, c.Userfaultfd} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}

// copy copies a range of memory to its place. Memory that is not mapped any more is zeros there.
func (c *copying) copy(r run) error {
	for r.start < r.end {
		part := c.buffer[:min(r.end-r.start, bufferBytes)]
		got, err := c.read(part, r.start)
		switch {
		case got > 0:
		case errors.Is(err, io.EOF):
			return fmt.Errorf("pid %d: %w", c.PID, proc.ErrGone) // or it has called exec
		case errors.Is(err, unix.EIO): // not mapped any more
			got = min(len(part), pageBytes)
			clear(part[:got])
		default:
			return fmt.Errorf("read memory of pid %d at %#x: %w", c.PID, r.start, err)
		}
		if _, err := c.pages.WriteAt(part[:got], int64(r.offset)); err != nil {
			return err
		}
		r.start, r.offset = r.start+uint64(got), r.offset+uint64(got)
	}
	return nil
}

var pageBytes = os.Getpagesize()

// memoryOf is what a read asks for that may hang.
type memoryOf proc.Identity

// read reads memory. The program may have mapped a file there whose file system does not answer.
func (c *copying) read(into []byte, address uint64) (int, error) {
	type result struct {
		got int
		err error
	}
	question := bounded.Question{UID: c.UID, Of: memoryOf(c.Identity)}
	read, err := bounded.Call(question, bounded.FileTime, func() (r result) {
		r.got, r.err = c.memory.ReadAt(into, int64(address))
		return r
	})
	if err != nil {
		return 0, err
	}
	return read.got, read.err
}
