package rootdir

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// private is the mode of the directories that a Maker makes.
const private = 0o700

// Maker opens a user's directories, and makes them if they are missing. It acts with the rights of
// the thread.
//
// Missing parents are made, too, below the working directory and below a directory of the user.
// Elsewhere a disk may not be mounted, or the name be wrong. To root all directories of the machine
// would belong, so for root only the working directory counts.
type Maker struct {
	// At is the directory from which paths are resolved, with flags for openat2.
	At      int
	Resolve uint64
	// UID is the user, From its working directory as a path of At.
	UID  uint32
	From string
}

// ParentError is returned for a parent that is missing and is not made.
type ParentError struct{ Parent string }

func (e *ParentError) Error() string {
	return fmt.Sprintf("%v; %s is missing: create it first: mkdir -p '%s'", unix.ENOENT, e.Parent, e.Parent)
}

// Unwrap returns ENOENT.
func (e *ParentError) Unwrap() error { return unix.ENOENT }

// Open opens a directory, or makes it. made has what it has made, the parents first.
func (m Maker) Open(dir string) (fd int, made []string, err error) {
	dir = path.Clean(dir)
	fd, err = m.open(dir)
	if !errors.Is(err, unix.ENOENT) {
		return fd, nil, err
	}
	parent, made, err := m.parent(path.Dir(dir))
	if err != nil {
		return -1, made, err
	}
	defer unix.Close(parent)
	made, err = m.make(parent, dir, made)
	if err != nil {
		return -1, made, err
	}
	fd, err = m.open(dir)
	return fd, made, err
}

func (m Maker) open(dir string) (int, error) {
	return unix.Openat2(m.At, dir, &unix.OpenHow{
		Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: m.Resolve,
	})
}

// parent is Open for a parent, which may be one that is not made.
func (m Maker) parent(dir string) (fd int, made []string, err error) {
	fd, err = m.open(dir)
	if err == nil || !errors.Is(err, unix.ENOENT) || dir == path.Dir(dir) {
		return fd, nil, at(dir, err)
	}
	up, made, err := m.parent(path.Dir(dir))
	var missing *ParentError
	if errors.As(err, &missing) {
		return -1, made, &ParentError{dir}
	}
	if err != nil {
		return -1, made, err
	}
	defer unix.Close(up)
	if len(made) == 0 && !m.allows(up, dir) {
		return -1, made, &ParentError{dir}
	}
	if made, err = m.make(up, dir, made); err != nil {
		return -1, made, err
	}
	fd, err = m.open(dir)
	return fd, made, at(dir, err)
}

// allows reports whether a missing parent may be made in a directory.
func (m Maker) allows(up int, parent string) bool {
	if below(m.From, parent) {
		return true
	}
	var info unix.Stat_t
	return m.UID != 0 && unix.Fstat(up, &info) == nil && info.Uid == m.UID
}

// below reports whether a path is below a directory, both as text.
func below(dir, name string) bool {
	switch dir {
	case "":
		return false
	case ".":
		return !path.IsAbs(name) && name != ".." && !strings.HasPrefix(name, "../")
	}
	return strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// make makes a directory in its parent, and adds it to made if it was missing.
func (m Maker) make(parent int, dir string, made []string) ([]string, error) {
	err := unix.Mkdirat(parent, path.Base(dir), private)
	if err == nil {
		return append(made, dir), nil
	}
	if errors.Is(err, unix.EEXIST) {
		return made, nil
	}
	return made, fmt.Errorf("make %s: %w", dir, err)
}

// at names the directory of an error.
func at(dir string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("open %s: %w", dir, err)
}
