package rundir

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/wire"
)

const (
	blockBytes = 512 // the unit of st_blocks on every file system
	// roundingBytes is what the kernel may add to files of full length: the rest of a huge page, for
	// each of the two.
	roundingBytes = 2 * 2 << 20
)

// Exceeds reports whether files that hold so much were made longer than a session is given.
func Exceeds(heldBytes, givenBytes uint64) bool { return heldBytes > givenBytes+roundingBytes }

// Space is the room of the sessions' file system.
type Space struct{ FreeBytes, AllBytes uint64 }

// HalfFull reports whether less than half is free.
func (s Space) HalfFull() bool { return s.FreeBytes < s.AllBytes/2 }

// Space returns the room of the sessions' file system.
func (d *Dir) Space() (Space, error) {
	var info unix.Statfs_t
	if err := unix.Statfs(d.sessions(), &info); err != nil {
		return Space{}, fmt.Errorf("stat %s: %w", d.sessions(), err)
	}
	return Space{FreeBytes: info.Bfree * uint64(info.Bsize), AllBytes: info.Blocks * uint64(info.Bsize)}, nil
}

// UsedBytes returns the memory that a session's files take. Their owner may make them longer, but
// cannot replace them.
func (d *Dir) UsedBytes(id uint64) (bytes uint64, err error) {
	paths := d.Paths(id)
	for _, path := range []string{paths.Session, paths.Arena} {
		var info unix.Stat_t
		if err := unix.Lstat(path, &info); err != nil {
			return 0, fmt.Errorf("stat files of session %d: %w", id, err)
		}
		bytes += uint64(info.Blocks) * blockBytes
	}
	return bytes, nil
}

// Revoked are the files of an ended session. Its program may still have them open, and so hold
// their memory or make them longer.
type Revoked struct {
	files []revokedFile
}

type revokedFile struct {
	*os.File
	givenBytes uint64
	// from is where the part begins that Shrink takes away.
	from int64
}

// Revoke takes a session's files away from their owner, so that only processes that already have
// them open can use them. Remove alone does not: open files can be opened again through /proc.
func (d *Dir) Revoke(id, arenaBytes uint64) (*Revoked, error) {
	r := &Revoked{}
	paths := d.Paths(id)
	for _, each := range []struct {
		path       string
		givenBytes uint64
		from       int64
	}{{paths.Session, wire.SessionBytes, wire.HeaderOffset + wire.HeaderBytes}, {paths.Arena, arenaBytes, 0}} {
		file, err := os.OpenFile(each.path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			r.files = append(r.files, revokedFile{file, each.givenBytes, each.from})
			err = errors.Join(file.Chown(os.Geteuid(), os.Getegid()), file.Chmod(0))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("revoke files of session %d: %w", id, err), r.Close())
		}
	}
	return r, nil
}

// Trim closes the files that no other process has open, and truncates the others to their given
// size. It returns how many bytes it removed, and whether all files are closed.
func (r *Revoked) Trim() (trimmedBytes uint64, done bool, err error) {
	var left []revokedFile
	for _, file := range r.files {
		// The kernel grants this lease only if no other process has the file open. Closing the file ends
		// the lease.
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

// Truncate frees the memory although processes have the files open: touching it raises SIGBUS from
// then on.
func (r *Revoked) Truncate() error {
	var failures []error
	for _, file := range r.files {
		failures = append(failures, file.Truncate(0))
	}
	return errors.Join(failures...)
}

// Shrink frees all memory but the header, which tells the program that its worker is dead. What the
// program has pinned raises SIGBUS from then on.
func (r *Revoked) Shrink() error {
	var failures []error
	for _, file := range r.files {
		if file.from == 0 {
			failures = append(failures, file.Truncate(0))
			continue
		}
		failures = append(failures, file.Truncate(int64(file.givenBytes)), os.NewSyscallError("fallocate",
			unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
				file.from, int64(file.givenBytes)-file.from)))
	}
	return errors.Join(failures...)
}

// Close closes the files.
func (r *Revoked) Close() error {
	var failures []error
	for _, file := range r.files {
		failures = append(failures, file.Close())
	}
	r.files = nil
	return errors.Join(failures...)
}

// Shortened returns the path of a file of a session that is shorter than it was made; "" if there
// is none.
func (d *Dir) Shortened(id, arenaBytes uint64) string {
	paths := d.Paths(id)
	for _, each := range []struct {
		path  string
		bytes uint64
	}{{paths.Session, wire.SessionBytes}, {paths.Arena, arenaBytes}} {
		if info, err := os.Lstat(each.path); err == nil && uint64(info.Size()) < each.bytes {
			return each.path
		}
	}
	return ""
}
