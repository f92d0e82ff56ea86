package policy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

const private = 0o700

// shared is the mode of a directory that an administrator has named: users reach theirs below it.
const shared = 0o711

// Open opens the directory that a program's own policy names, or makes it, by the rule of
// rootdir.Maker. The path is resolved as the program would: from its working directory, below its
// root, with its rights.
func Open(program proc.Identity, as fsuid.Rights, dir string) (*os.File, error) {
	opened := -1
	err := as.Do(func() error {
		root, err := unix.Open(proc.Root(program.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("root of pid %d: %w", program.PID, err)
		}
		defer unix.Close(root)
		from, err := proc.WorkingDirectory(program.PID)
		if !filepath.IsAbs(dir) {
			if err != nil {
				return err
			}
			dir = path.Join(from, dir)
		}
		// If it is still the same process, the links read above are its own.
		if err := program.Check(); err != nil {
			return err
		}
		opened, _, err = rootdir.Maker{
			At: root, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS, UID: as.UID, From: from,
		}.Open(dir)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", dir, err)
	}
	return os.NewFile(uintptr(opened), dir), nil
}

// OpenBase opens the directory that an administrator has named, or makes it if its parent is there.
func OpenBase(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, shared); err != nil && !errors.Is(err, os.ErrExist) {
		if _, missing := os.Stat(filepath.Dir(dir)); errors.Is(missing, os.ErrNotExist) {
			return nil, &rootdir.ParentError{Parent: filepath.Dir(dir)}
		}
		return nil, err
	}
	return os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// UserDirectory returns the name of a user's directory below one that an administrator has named.
func UserDirectory(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

// OpenShared opens or makes a program's directory below one that an administrator has named. The
// user gets a private directory there; the program's directory is in it.
func OpenShared(base *os.File, as fsuid.Rights, name string) (*os.File, error) {
	user := UserDirectory(as.UID)
	err := unix.Mkdirat(int(base.Fd()), user, private)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("make %s/%s: %w", base.Name(), user, err)
	}
	how := unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(int(base.Fd()), user, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", base.Name(), user, err)
	}
	own := os.NewFile(uintptr(fd), filepath.Join(base.Name(), user))
	defer own.Close()
	if made {
		if err := own.Chown(int(as.UID), int(as.GID)); err != nil {
			return nil, err
		}
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return nil, err
	}
	if info.Uid != as.UID {
		return nil, fmt.Errorf("%s belongs to user %d, not to user %d: %w", own.Name(), info.Uid, as.UID, unix.EPERM)
	}
	opened := -1
	err = as.Do(func() error {
		var err error
		opened, _, err = rootdir.Maker{At: fd, Resolve: how.Resolve}.Open(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory %s/%s: %w", own.Name(), name, err)
	}
	return os.NewFile(uintptr(opened), filepath.Join(own.Name(), name)), nil
}
