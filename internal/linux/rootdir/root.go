package rootdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Root is a root directory that is held open. A nil Root is that of this process.
type Root struct {
	dir   *os.File
	place proc.Identity
	id    ID
}

// ID distinguishes roots from each other: by the mount, too, because containers may have the same
// directory as their root. It is comparable.
type ID struct{ device, inode, mount uint64 }

// Of opens the root directory of a process; nil for the zero Identity. The error is proc.ErrGone if
// the process has ended: its pid may belong to another one, whose root this would be.
func Of(place proc.Identity) (*Root, error) {
	if place.PID == 0 {
		return nil, nil
	}
	root, err := Open(fmt.Sprintf("/proc/%d/root", place.PID))
	if err != nil {
		return nil, errors.Join(err, place.Check())
	}
	if err := place.Check(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	root.place = place
	return root, nil
}

// Open opens a directory as a root.
func Open(name string) (*Root, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open root", Path: name, Err: err}
	}
	root := &Root{dir: os.NewFile(uintptr(fd), name)}
	var now unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &now); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "stat", Path: name, Err: err}, root.Close())
	}
	root.id = ID{unix.Mkdev(now.Dev_major, now.Dev_minor), now.Ino, now.Mnt_id}
	return root, nil
}

// ID returns the root's ID. That of a nil Root is the zero ID.
func (r *Root) ID() ID {
	if r == nil {
		return ID{}
	}
	return r.id
}

// Close closes the root. Calls in progress end first; later ones fail.
func (r *Root) Close() error {
	if r == nil {
		return nil
	}
	return r.dir.Close()
}

// PID returns the process of which this is the root, or this process.
func (r *Root) PID() int {
	if r == nil || r.place.PID == 0 {
		return os.Getpid()
	}
	return r.place.PID
}

// Place returns the process of which this is the root. For a nil Root it is the zero Identity.
func (r *Root) Place() proc.Identity {
	if r == nil {
		return proc.Identity{}
	}
	return r.place
}

// Key is a comparable value that stands for a path below this root.
func (r *Root) Key(name string) any {
	type key struct {
		root ID
		path string
	}
	return key{r.ID(), name}
}

// Open opens a file below the root. how is as for openat2; links never lead out of the root.
func (r *Root) Open(name string, how unix.OpenHow) (file *os.File, err error) {
	how.Flags |= unix.O_CLOEXEC
	how.Resolve |= unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS
	err = r.use(func(dir int) error {
		fd, err := unix.Openat2(dir, name, &how)
		if err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		file = os.NewFile(uintptr(fd), name)
		return nil
	})
	return file, err
}

// use calls do with the root's descriptor, on this thread: its rights and namespaces count.
func (r *Root) use(do func(dir int) error) error {
	if r == nil {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open root", Path: "/", Err: err}
		}
		defer unix.Close(fd)
		return do(fd)
	}
	raw, err := r.dir.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	if err := raw.Control(func(fd uintptr) { failure = do(int(fd)) }); err != nil {
		return err
	}
	return failure
}

// Stat returns what the kernel says of a file. It follows links.
func (r *Root) Stat(name string) (unix.Stat_t, error) { return r.stat(name, 0) }

// Lstat returns what the kernel says of a file. It does not follow a link in the last part.
func (r *Root) Lstat(name string) (unix.Stat_t, error) { return r.stat(name, unix.O_NOFOLLOW) }

// stat returns what the kernel says of a file that is opened with these flags.
func (r *Root) stat(name string, flags uint64) (stat unix.Stat_t, err error) {
	err = r.at(name, flags, func(file int) error { return unix.Fstat(file, &stat) })
	return stat, err
}

// Access returns an error unless this thread may access a file in a mode of access(2).
func (r *Root) Access(name string, mode uint32) error {
	return r.at(name, 0, func(file int) error {
		return unix.Faccessat2(file, "", mode, unix.AT_EMPTY_PATH|unix.AT_EACCESS)
	})
}

// ReadDir returns the entries of a directory.
func (r *Root) ReadDir(name string) ([]os.DirEntry, error) {
	dir, err := r.Open(name, unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY})
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// Link gives a file a second name. It follows no link in the last part of either name.
func (r *Root) Link(name, second string) error {
	return r.atParent(name, func(from int, base string) error {
		return r.atParent(second, func(to int, other string) error {
			return unix.Linkat(from, base, to, other, 0)
		})
	})
}

// Unlink removes a name of a file.
func (r *Root) Unlink(name string) error {
	return r.atParent(name, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
}

// atParent calls do with the directory in which a name is, and the last part of the name.
func (r *Root) atParent(name string, do func(dir int, base string) error) error {
	dir, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return &fs.PathError{Op: "open", Path: name, Err: unix.EISDIR}
	}
	return r.at(dir, unix.O_DIRECTORY, func(fd int) error { return do(fd, base) })
}

// at calls do with a file that is open as O_PATH.
func (r *Root) at(name string, flags uint64, do func(fd int) error) error {
	file, err := r.Open(name, unix.OpenHow{Flags: flags | unix.O_PATH})
	if err != nil {
		return err
	}
	defer file.Close()
	if err := do(int(file.Fd())); err != nil {
		return &fs.PathError{Op: "access", Path: name, Err: err}
	}
	return nil
}
