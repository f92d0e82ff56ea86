package restorer

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// accessList is the extended attribute with a file's access control list.
const accessList = "system.posix_acl_access"

// maxAccessList is an upper bound for its size.
const maxAccessList = 64 << 10

// protectCopy gives a copy the owner, group and permissions of the original, as far as this user
// may do so. No process may read the copy that may not read the original.
func protectCopy(to, original *os.File) error {
	var want, got unix.Stat_t
	if err := unix.Fstat(int(original.Fd()), &want); err != nil {
		return err
	}
	fd := int(to.Fd())
	// The directory may have a list for new files. The error says that there is none.
	_ = unix.Fremovexattr(fd, accessList)
	if unix.Fchown(fd, int(want.Uid), int(want.Gid)) != nil {
		_ = unix.Fchown(fd, -1, int(want.Gid)) // the user may not be in this group
	}
	if err := unix.Fstat(fd, &got); err != nil {
		return err
	}
	list := make([]byte, maxAccessList)
	size, err := unix.Fgetxattr(int(original.Fd()), accessList, list)
	hasList := err == nil && size > 0
	if err := unix.Fchmod(fd, copyMode(&want, &got, hasList)); err != nil {
		return err
	}
	if hasList && got.Uid == want.Uid && got.Gid == want.Gid {
		_ = unix.Fsetxattr(fd, accessList, list[:size], 0) // without it only the owner may read the copy
	}
	return nil
}

// copyMode returns the permissions of a copy whose owner and group may differ from those of the
// original.
func copyMode(original, now *unix.Stat_t, hasList bool) uint32 {
	mode := original.Mode & 0o777
	owner, group, others := mode&0o700, mode&0o070, mode&0o007
	if now.Uid != original.Uid {
		owner = 0o600 // this user has read the original, and can remove the copy
	}
	switch {
	case hasList:
		// The bits of the group are an upper bound of the list.
		group, others = 0, 0
	case now.Gid != original.Gid:
		// A member of either group may be one of the others for the other file.
		others &= group >> 3
		group = others << 3
	}
	return owner | group | others
}

// renameNew renames a file to a name that must be free, and waits until the disk has the name.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // not on this file system
		if _, err := os.Lstat(to); err == nil {
			return &os.PathError{Op: "rename", Path: to, Err: os.ErrExist}
		}
		err = os.Rename(from, to)
	}
	if err != nil {
		return &os.PathError{Op: "rename", Path: to, Err: err}
	}
	err = dirsync.Sync(filepath.Dir(to))
	if errors.Is(err, os.ErrPermission) {
		return nil // the user may write the directory, but not read it
	}
	return err
}
