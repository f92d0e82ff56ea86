package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// directory is a data directory that only this process uses. The lock is on the directory itself.
type directory struct {
	path string
	file *os.File
}

// openDirectory makes a data directory if there is none, and locks it.
func openDirectory(path string) (*directory, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	file, err := openPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("open the data directory: %w", err)
	}
	d := &directory{path: path, file: file}
	if err := errors.Join(lock(file), d.checkDatabase()); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory %s: %w", path, err), d.close())
	}
	return d, nil
}

// close releases the lock.
func (d *directory) close() error { return unlock(d.file) }

// inside returns the path of a file in the directory.
func (d *directory) inside(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// checkDatabase returns ErrInUse if an etcd that does not lock the directory has opened the
// database: etcd itself would wait for it without an end.
func (d *directory) checkDatabase() error {
	database, err := os.Open(d.inside("member", "snap", "db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(lock(database), unlock(database))
}

// lock locks a file until unlock.
func lock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// unlock closes a file. Another program that this process is starting may have it open until it is
// executed, and would keep the lock.
func unlock(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// openPrivate opens a directory that only the user of this process can reach.
func openPrivate(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if int(stat.Uid) != os.Geteuid() || stat.Mode&0o077 != 0 {
		return nil, errors.Join(fmt.Errorf("%w to %s: its mode is %o and its owner %d; it must be 700 and %d",
			ErrPublic, path, stat.Mode&0o7777, stat.Uid, os.Geteuid()), file.Close())
	}
	return file, nil
}
