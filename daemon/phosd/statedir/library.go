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

// Library opens the copy of a file whose content has a name, and makes it first where there is
// none. Restored programs map it; it stays for as long as the state directory does, because nobody
// can tell when the last of them has ended. The names are hashes: what has one cannot be anything
// else.
func (d *Dir) Library(hash string, content io.Reader) (*os.File, error) {
	if hash == "" || strings.ContainsAny(hash, "/.") {
		return nil, fmt.Errorf("library %q: no name of a content", hash)
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
