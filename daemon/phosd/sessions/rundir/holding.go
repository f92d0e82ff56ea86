package rundir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	blockBytes = 512 // of st_blocks, whatever the file system's are
	// roundingBytes is what the kernel may add to a file of full length: the rest of a huge page, for
	// each of the two.
	roundingBytes = 2 * 2 << 20
)

// Exceeds says whether files that hold so much were made longer than a session is given.
func Exceeds(heldBytes, givenBytes uint64) bool { return heldBytes > givenBytes+roundingBytes }

// HalfFull says whether the sessions' file system has less than half of its room left.
func (d *Dir) HalfFull() (bool, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(d.sessions(), &info); err != nil {
		return false, fmt.Errorf("look at %s: %w", d.sessions(), err)
	}
	return info.Bfree < info.Blocks/2, nil
}

// Held is the memory that a session's files take, in bytes. Their owner may lengthen them, never
// replace them.
func (d *Dir) Held(id uint64) (bytes uint64, err error) {
	paths := d.Paths(id)
	for _, path := range []string{paths.Session, paths.Arena} {
		var info unix.Stat_t
		if err := unix.Lstat(path, &info); err != nil {
			return 0, fmt.Errorf("look at session %d: %w", id, err)
		}
		bytes += uint64(info.Blocks) * blockBytes
	}
	return bytes, nil
}

// Retired are the files of a session that has ended. Its program may still have them open, and goes
// on to hold their memory, or to take more.
type Retired struct {
	files []retiredFile
}

type retiredFile struct {
	*os.File
	givenBytes uint64
}

// Retire takes a session's files away from their owner, which Remove alone would not: nobody can
// open them any more, by whatever way, so it is enough to look at those who have.
func (d *Dir) Retire(id, arenaBytes uint64) (*Retired, error) {
	r := &Retired{}
	paths := d.Paths(id)
	for _, each := range []struct {
		path       string
		givenBytes uint64
	}{{paths.Session, wire.SessionBytes}, {paths.Arena, arenaBytes}} {
		file, err := os.OpenFile(each.path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			r.files = append(r.files, retiredFile{file, each.givenBytes})
			err = errors.Join(file.Chown(os.Geteuid(), os.Getegid()), file.Chmod(0))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("retire session %d: %w", id, err), r.Close())
		}
	}
	return r, nil
}

// Trim closes the files that nobody else has open, and shortens those left that are longer than
// they were made. It returns how many bytes it took away, and whether nothing is left to look at.
func (r *Retired) Trim() (trimmedBytes uint64, done bool, err error) {
	var left []retiredFile
	for _, file := range r.files {
		// The kernel grants this lease only to the one who alone has the file open. Closing the file ends
		// it.
		if _, refused := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); refused == nil {
			err = errors.Join(err, file.Close())
			continue
		}
		left = append(left, file)
		info, failure := file.Stat()
		if failure == nil && uint64(info.Size()) > file.givenBytes {
			failure = file.Truncate(int64(file.givenBytes))
			trimmedBytes += uint64(info.Size()) - file.givenBytes
		}
		err = errors.Join(err, failure)
	}
	r.files = left
	return trimmedBytes, len(left) == 0, err
}

// Empty takes the memory away from whoever still has the files open: touching it is a bus error
// from then on.
func (r *Retired) Empty() error {
	var failures []error
	for _, file := range r.files {
		failures = append(failures, file.Truncate(0))
	}
	return errors.Join(failures...)
}

// Close stops looking.
func (r *Retired) Close() error {
	var failures []error
	for _, file := range r.files {
		failures = append(failures, file.Close())
	}
	r.files = nil
	return errors.Join(failures...)
}
