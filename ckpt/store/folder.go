package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is an open directory of an image. Files in it are opened by names without a slash,
// relative to its descriptor, without following links.
type folder struct {
	file *os.File
	// as runs operations on names with the rights of the image's owner.
	as func(func() error) error
}

const (
	beneath      = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	always       = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NOCTTY
	privateFile  = 0o600
	privateDir   = 0o700
	namesAtOnce  = 1024
	maxNames     = 1 << 17
	openAttempts = 100
)

func (f folder) path(name string) string { return filepath.Join(f.file.Name(), name) }

// fd is valid while the folder is open, which outlasts every call of this file.
func (f folder) fd() int { return int(f.file.Fd()) }

// fail adds the operation and the path to an error.
func (f folder) fail(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: what, Path: f.path(name), Err: err}
}

// openat opens a name. The kernel returns EAGAIN if something was renamed at the same time.
func (f folder) openat(name string, flags int, mode uint32) (*os.File, error) {
	fd := -1
	err := f.as(func() (err error) {
		how := unix.OpenHow{Flags: uint64(flags | always), Mode: uint64(mode), Resolve: beneath}
		for range openAttempts {
			fd, err = unix.Openat2(f.fd(), name, &how)
			if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		return err
	})
	if err != nil {
		return nil, f.fail("open", name, err)
	}
	return os.NewFile(uintptr(fd), f.path(name)), nil
}

// open opens a regular file. It never blocks on or reads from a file of another type.
func (f folder) open(name string, flags int) (*os.File, error) {
	file, err := f.openat(name, flags|unix.O_NONBLOCK, modeFor(flags))
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) {
		return nil, f.fail("open", name, ErrNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = f.fail("open", name, ErrNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// modeFor returns the mode for open; it must be 0 unless a file is created.
func modeFor(flags int) uint32 {
	if flags&unix.O_CREAT != 0 {
		return privateFile
	}
	return 0
}

// folder opens a directory.
func (f folder) folder(name string) (folder, error) {
	file, err := f.openat(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		err = f.fail("open", name, unix.ENOTDIR)
	}
	return folder{file, f.as}, err
}

// makeFolder opens a directory, creating it if necessary.
func (f folder) makeFolder(name string) (folder, error) {
	made := f.as(func() error { return unix.Mkdirat(f.fd(), name, privateDir) })
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return folder{}, f.fail("make", name, made)
	}
	opened, err := f.folder(name)
	if err != nil && made == nil {
		_ = f.removeFolder(name) // unusable
	}
	return opened, err
}

// read returns the content of a small regular file.
func (f folder) read(name string, limitBytes int64) ([]byte, error) {
	file, err := f.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > limitBytes {
		return nil, fmt.Errorf("read %s: %w", file.Name(), tooLong(info.Size(), limitBytes))
	}
	return io.ReadAll(io.LimitReader(file, limitBytes+1))
}

// create writes a new file and syncs it.
func (f folder) create(name string, content []byte) error {
	file, err := f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = f.remove(name)
	}
	return err
}

// rename moves a file to a name that must not exist. If the file system cannot guarantee that (NFS,
// FAT), rename checks it before; the caller holds the lock.
func (f folder) rename(name string, to folder, newName string) error {
	return to.fail("create", newName, f.as(func() error {
		err := renameNew(f.fd(), name, to.fd(), newName)
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EOPNOTSUPP) {
			return err
		}
		var there unix.Stat_t
		if err := unix.Fstatat(to.fd(), newName, &there, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
			if err == nil {
				err = unix.EEXIST
			}
			return err
		}
		return unix.Renameat(f.fd(), name, to.fd(), newName)
	}))
}

// renameNew is replaced by tests, because not every file system supports it.
var renameNew = func(from int, name string, to int, newName string) error {
	return unix.Renameat2(from, name, to, newName, unix.RENAME_NOREPLACE)
}

func (f folder) remove(name string) error {
	return f.fail("remove", name, f.as(func() error { return unix.Unlinkat(f.fd(), name, 0) }))
}

func (f folder) removeFolder(name string) error {
	return f.fail("remove", name, f.as(func() error { return unix.Unlinkat(f.fd(), name, unix.AT_REMOVEDIR) }))
}

// sync syncs the directory. Some file systems do not support that and need none.
func (f folder) sync() error {
	err := unix.Fsync(f.fd())
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return f.fail("sync", "", err)
}

// names lists the directory.
func (f folder) names() ([]string, error) {
	file, err := f.openat(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []string
	for {
		some, err := file.Readdirnames(namesAtOnce)
		for _, name := range some {
			all = append(all, strings.Clone(name))
		}
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(all) > maxNames:
			return nil, fmt.Errorf("read %s: more than %d names", file.Name(), maxNames)
		}
	}
}

func (f folder) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}
