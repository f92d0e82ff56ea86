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
)

const private = 0o700

// shared is the mode of a directory that an administrator has named: users reach theirs below it.
const shared = 0o711

// Open opens the directory that a program's own policy names, or makes it if its parent is there.
// The path is resolved as the program would: from its working directory, below its root, with its
// rights.
func Open(program proc.Identity, as fsuid.Rights, dir string) (*os.File, error) {
	opened := -1
	err := as.Do(func() error {
		root, err := unix.Open(proc.Root(program.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("root of pid %d: %w", program.PID, err)
		}
		defer unix.Close(root)
		if !filepath.IsAbs(dir) {
			from, err := proc.WorkingDirectory(program.PID)
			if err != nil {
				return err
			}
			dir = path.Join(from, dir)
		}
		// If it is still the same process, the links read above are its own.
		if err := program.Check(); err != nil {
			return err
		}
		opened, err = makeBelow(root, path.Clean(dir), unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", dir, err)
	}
	return os.NewFile(uintptr(opened), dir), nil
}

// makeBelow opens a directory below another, or makes it. A missing parent is an error, as it is
// for --dir of the command: a disk may not be mounted, or the name be wrong.
func makeBelow(root int, dir string, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve}
	fd, err := unix.Openat2(root, dir, &how)
	if !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	parent, missing := unix.Openat2(root, path.Dir(dir), &how)
	if missing != nil {
		return -1, explainParent(path.Dir(dir), missing)
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(dir), private); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, fmt.Errorf("make %s: %w", dir, err)
	}
	return unix.Openat2(root, dir, &how)
}

// explainParent adds what to do to the error of opening a parent directory.
func explainParent(parent string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%w; %s is missing: create it first", err, parent)
	}
	return fmt.Errorf("open %s: %w", parent, err)
}

// OpenBase opens the directory that an administrator has named, or makes it if its parent is there.
func OpenBase(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, shared); err != nil && !errors.Is(err, os.ErrExist) {
		if _, missing := os.Stat(filepath.Dir(dir)); missing != nil {
			return nil, explainParent(filepath.Dir(dir), err)
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
		opened, err = makeBelow(fd, name, how.Resolve)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory %s/%s: %w", own.Name(), name, err)
	}
	return os.NewFile(uintptr(opened), filepath.Join(own.Name(), name)), nil
}
