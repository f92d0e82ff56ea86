package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Library opens the copy of a library with a digest, and makes it if there is none. Restored
// programs map it. Copies that no process has mapped or open are removed: their images have them.
func (d *Dir) Library(hash string, content io.Reader) (*os.File, error) {
	d.librariesMu.Lock() // so that what is made is open before the next look at what is in use
	defer d.librariesMu.Unlock()
	if hash == "" || strings.ContainsAny(hash, "/.") {
		return nil, fmt.Errorf("library %q: not a hash", hash)
	}
	dir := filepath.Join(d.libraries(), hash)
	path := filepath.Join(dir, "libphos.so")
	if file, err := os.Open(path); err == nil {
		return file, nil
	}
	_ = d.removeLibraries() // not fatal: the next call or start removes them
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

// removeLibraries removes the copies that no process has mapped or open. The caller holds
// librariesMu.
func (d *Dir) removeLibraries() error {
	entries, err := os.ReadDir(d.libraries())
	if err != nil || len(entries) == 0 {
		return err
	}
	used, err := d.usedLibraries()
	if err != nil {
		return err
	}
	var failures []error
	for _, entry := range entries {
		if !used[entry.Name()] {
			failures = append(failures, os.RemoveAll(filepath.Join(d.libraries(), entry.Name())))
		}
	}
	return errors.Join(failures...)
}

// usedLibraries returns the digests of the copies that processes have mapped or open. Programs have
// them mapped. Another phosd of this machine, and restorers, have them open before that.
func (d *Dir) usedLibraries() (used map[string]bool, err error) {
	processes, err := proc.All()
	if err != nil {
		return nil, err
	}
	used = make(map[string]bool)
	note := func(path string) {
		if rest, ours := strings.CutPrefix(path, d.libraries()+"/"); ours {
			hash, _, _ := strings.Cut(rest, "/")
			used[hash] = true
		}
	}
	for _, pid := range processes {
		err := eachMapped(pid, note)
		if err == nil {
			err = eachOpen(pid, note)
		}
		// What root may not read is in a sandbox of its own, and not a program that phosd restored.
		if err != nil && !ended(err) && !errors.Is(err, fs.ErrPermission) {
			return nil, err // unknown, so everything stays
		}
	}
	return used, nil
}

// ended reports whether an error means that a process has ended.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// eachMapped calls a function with the path of each mapped file of a process.
func eachMapped(pid int, note func(path string)) error {
	for mapping, err := range proc.EachMapping(pid) {
		if err != nil {
			return err
		}
		note(mapping.Path)
	}
	return nil
}

// eachOpen calls a function with the path of each open file of a process.
func eachOpen(pid int, note func(path string)) error {
	numbers, err := proc.Numbers(pid)
	for _, number := range numbers {
		if path, err := os.Readlink(proc.File(pid, number)); err == nil { // else it was closed
			note(path)
		}
	}
	return err
}
