package checkpoints

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/policy"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// errShared is returned when two programs' policies name one image directory.
var errShared = errors.New("another program has the same directory; {pid}, {rank} or {job} in its name make it differ")

// opens returns the function that opens the image directory of a program's policy.
func (c *Checkpoints) opens(s *sessions.Session, p *programPolicy) func(fsuid.Rights) (imageDirectory, error) {
	return func(as fsuid.Rights) (imageDirectory, error) {
		if p.Own {
			dir, err := policy.Open(s.Record().Program, as, p.program.Fill(p.Dir))
			return imageDirectory{File: dir}, err
		}
		// phosd.toml names the directory, so it is made and opened as root.
		base, err := policy.OpenBase(p.Dir)
		if err != nil {
			return imageDirectory{}, err
		}
		defer base.Close()
		return c.openShared(base, as, p.program.Name())
	}
}

// imageDirectory is an open image directory of a policy.
type imageDirectory struct {
	*os.File
	// user is the user's directory that it lies in, below one that the administrator has named; nil:
	// the program's own policy names the directory.
	user *os.File
}

// close closes the directories.
func (d imageDirectory) close() { fdpass.Close([]*os.File{d.File, d.user}) }

// openShared opens a program's directory below one that the administrator has named, if the user
// may have more images there.
func (c *Checkpoints) openShared(base *os.File, as fsuid.Rights, name string) (d imageDirectory, err error) {
	if d.File, err = policy.OpenShared(base, as, name); err != nil {
		return imageDirectory{}, err
	}
	// The program's directory lies directly in the user's, which is not a link.
	fd, err := unix.Openat(int(base.Fd()), policy.UserDirectory(as.UID),
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		d.user = os.NewFile(uintptr(fd), filepath.Join(base.Name(), policy.UserDirectory(as.UID)))
		err = c.checkSpace(as.UID, d.user)
	}
	if err != nil {
		d.close()
		return imageDirectory{}, err
	}
	return d, nil
}

// directories are the image directories in use by policies.
type directories struct {
	mu     sync.Mutex // guards owners
	owners map[claimKey]*sessions.Session
}

// claimKey is a directory of one user's policies. Another user's policy may name a directory that
// it can only read; its claim must not keep out the owner.
type claimKey struct {
	directoryID
	uid uint32
}

// directoryID identifies a directory, whatever its path. Device and inode alone do not: the number
// of a removed directory is given to another one, perhaps of another user. The rest differs then.
type directoryID struct {
	device, inode uint64
	born          unix.StatxTimestamp
	// handle is the file system's own name, with a generation; "" where there is none.
	handle string
}

// identify returns what identifies an open directory.
func identify(dir *os.File) (id directoryID, err error) {
	var info unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &info); err != nil {
		return id, os.NewSyscallError("statx", err)
	}
	id = directoryID{device: unix.Mkdev(info.Dev_major, info.Dev_minor), inode: info.Ino}
	if info.Mask&unix.STATX_BTIME != 0 {
		id.born = info.Btime
	}
	// Some file systems have no handles; they are optional.
	if handle, _, err := unix.NameToHandleAt(int(dir.Fd()), "", unix.AT_EMPTY_PATH); err == nil {
		id.handle = string(handle.Bytes())
	}
	return id, nil
}

// claim reserves a directory for one family as long as one of its programs runs.
func (d *directories) claim(known Sessions, f family, dir *os.File) error {
	id, err := identify(dir)
	if err != nil {
		return err
	}
	key := claimKey{id, f.members[0].Record().Owner.UID}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owners == nil {
		d.owners = make(map[claimKey]*sessions.Session)
	}
	all := known.All()
	for each, owner := range d.owners {
		if !slices.Contains(all, owner) {
			delete(d.owners, each)
		}
	}
	if owner := d.owners[key]; owner != nil && !f.has(owner) {
		return fmt.Errorf("%s: pid %d: %w", dir.Name(), owner.PID(), errShared)
	}
	d.owners[key] = f.members[0]
	return nil
}
