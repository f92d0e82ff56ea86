package policy

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
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
	own, err := openUser(base, as)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	opened := -1
	err = as.Do(func() error {
		var err error
		opened, _, err = rootdir.Maker{At: int(own.Fd()), Resolve: inside}.Open(name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory %s/%s: %w", own.Name(), name, err)
	}
	return os.NewFile(uintptr(opened), filepath.Join(own.Name(), name)), nil
}

// inside keeps a path below the directory where it begins.
const inside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

// openUser opens or makes the user's directory.
func openUser(base *os.File, as fsuid.Rights) (*os.File, error) {
	user := UserDirectory(as.UID)
	own, err := openInside(base, user)
	if errors.Is(err, unix.ENOENT) {
		if err = makeUser(base, user, as); err == nil {
			own, err = openInside(base, user)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := checkOwner(own, as.UID); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return own, nil
}

// newSuffix ends the name of a user's directory that is being made.
const newSuffix = ".new"

// makeUser makes a user's directory. It has its name only once it is the user's: others that open
// it at the same time, and the next phosd if this one is killed, would refuse it before. Two that
// make it at once do the same.
func makeUser(base *os.File, user string, as fsuid.Rights) error {
	if err := unix.Mkdirat(int(base.Fd()), user+newSuffix, private); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s/%s: %w", base.Name(), user, err)
	}
	made, err := openInside(base, user+newSuffix)
	if errors.Is(err, unix.ENOENT) {
		return nil // another one has renamed it
	}
	if err != nil {
		return err
	}
	defer made.Close()
	if err := checkOwner(made, 0, as.UID); err != nil {
		return err
	}
	if err := made.Chown(int(as.UID), int(as.GID)); err != nil {
		return err
	}
	at := int(base.Fd())
	err = unix.Renameat2(at, user+newSuffix, at, user, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // NFS: there an empty directory would be replaced
		err = unix.Renameat(at, user+newSuffix, at, user)
	}
	switch {
	case errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY):
		_ = unix.Unlinkat(at, user+newSuffix, unix.AT_REMOVEDIR) // another one may have removed it
		return nil
	case errors.Is(err, unix.ENOENT):
		return nil
	}
	return os.NewSyscallError("rename", err)
}

// openInside opens a directory in another one.
func openInside(base *os.File, name string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: inside}
	fd, err := unix.Openat2(int(base.Fd()), name, &how)
	if err != nil {
		return nil, fmt.Errorf("open %s/%s: %w", base.Name(), name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(base.Name(), name)), nil
}

// checkOwner returns an error if a directory is none of the users'.
func checkOwner(dir *os.File, users ...uint32) error {
	var info unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &info); err != nil {
		return err
	}
	if !slices.Contains(users, info.Uid) {
		return fmt.Errorf("%s belongs to user %d, not to user %d: %w", dir.Name(), info.Uid, users[len(users)-1], unix.EPERM)
	}
	return nil
}
