package statedir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Library opens the copy of a library with a digest, and makes it if there is none. Restored
// programs map it. It is never removed, because it is not known when the last of them has ended.
func (d *Dir) Library(hash string, content io.Reader) (*os.File, error) {
	if hash == "" || strings.ContainsAny(hash, "/.") {
		return nil, fmt.Errorf("library %q: not a hash", hash)
	}
	dir := filepath.Join(d.libraries(), hash)
	path := filepath.Join(dir, "libphos.so")
	if file, err := os.Open(path); err == nil {
		return file, nil
	}
	if err := ownDirectory(dir, passable); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return nil, fmt.Errorf("library: %w", err)
	}
	_, err = io.Copy(file, content)
	err = errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close())
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, file.Name(), unix.AT_FDCWD, path, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("library %s: %w", hash, err), os.Remove(file.Name()))
	}
	return os.Open(path)
}
