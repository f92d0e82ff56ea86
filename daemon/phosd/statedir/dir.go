package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Dir is an open state directory. Several phosd of a machine may share one.
type Dir struct {
	path   string
	own    *os.File // this phosd's work; locked, so that no other phosd removes it as stale
	memory string   // the tmpfs for small work; empty for none
	key    Key
	// memoryBytes is how much memory all small work may take.
	memoryBytes uint64

	librariesMu sync.Mutex // held while libraries are made, opened and removed

	mu sync.Mutex // guards promised
	// promised is the memory of all work directories in memory.
	promised uint64
}

// Options say where the directories are.
type Options struct {
	// Path is the state directory.
	Path string
	// MemoryPath is where a tmpfs for small work may be mounted; empty for none.
	MemoryPath string
	// MemoryBytes is how much it may hold.
	MemoryBytes uint64
}

// Open opens the directory. It makes the key if there is none, and removes the work of phosd that
// have ended.
func Open(options Options) (*Dir, error) {
	d := &Dir{path: options.Path, memory: options.MemoryPath}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{d.path, passable}, {d.keys(), private}, {d.imported(), private}, {d.work(), private}, {d.libraries(), passable}} {
		if err := ownDirectory(dir.path, dir.mode); err != nil {
			return nil, err
		}
	}
	work, err := lockDirectory(d.work(), 0)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	if d.key, err = openKey(filepath.Join(d.keys(), keyName)); err != nil {
		return nil, err
	}
	if err := d.removeStale(); err != nil {
		return nil, err
	}
	// Not fatal: the next start removes them.
	_ = d.removeLibraries()
	own, err := os.MkdirTemp(d.work(), "phosd-")
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if d.own, err = lockDirectory(own, 0); err != nil {
		return nil, err
	}
	return d, d.openMemory(options.MemoryBytes)
}

// lockDirectory opens and locks a directory. Closing it releases the lock.
func lockDirectory(path string, flags int) (*os.File, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|flags); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), dir.Close())
	}
	return dir, nil
}

// removeStale removes the work of phosd that have ended.
func (d *Dir) removeStale() error {
	entries, err := os.ReadDir(d.work())
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		path := filepath.Join(d.work(), entry.Name())
		dir, err := lockDirectory(path, unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err == nil {
			err = errors.Join(dir.Close(), os.RemoveAll(path))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// openMemory mounts the tmpfs, or does without where mounting is not allowed.
func (d *Dir) openMemory(bytes uint64) error {
	if d.memory == "" {
		return nil
	}
	if err := ownDirectory(d.memory, private); err != nil {
		return err
	}
	var at unix.Statfs_t
	if err := unix.Statfs(d.memory, &at); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	// The phosd before may have mounted it with another size.
	_ = unix.Unmount(d.memory, unix.MNT_DETACH)
	if bytes == 0 || mountTmpfs(d.memory, bytes) != nil {
		d.memory = ""
		return nil
	}
	d.memoryBytes = bytes
	// The mounts below are of no use to other mount namespaces.
	return os.NewSyscallError("make private", unix.Mount("", d.memory, "", unix.MS_PRIVATE, ""))
}

// Close removes what is used only while phosd runs.
func (d *Dir) Close() error {
	var failures []error
	if d.memory != "" {
		failures = append(
			failures,
			os.NewSyscallError("unmount", unix.Unmount(d.memory, unix.MNT_DETACH)),
			os.Remove(d.memory),
		)
		d.memory = ""
	}
	if d.own != nil {
		failures = append(failures, os.RemoveAll(d.own.Name()), d.own.Close())
		d.own = nil
	}
	return errors.Join(failures...)
}

func (d *Dir) keys() string      { return filepath.Join(d.path, "key") }
func (d *Dir) imported() string  { return filepath.Join(d.path, "keys") }
func (d *Dir) work() string      { return filepath.Join(d.path, "work") }
func (d *Dir) libraries() string { return filepath.Join(d.path, "lib") }

const (
	private os.FileMode = 0o700
	// passable directories cannot be listed, but known paths below can be opened: when a restored
	// program is saved again, CRIU runs as its user and must find the library that the program has
	// mapped.
	passable os.FileMode = 0o711
)

// ownDirectory makes a directory, or fails if it exists and is another user's.
func ownDirectory(path string, mode os.FileMode) error {
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	var info unix.Stat_t
	if err := unix.Lstat(path, &info); err != nil {
		return fmt.Errorf("state directory %s: %w", path, err)
	}
	if info.Mode&unix.S_IFMT != unix.S_IFDIR || int(info.Uid) != os.Geteuid() {
		return fmt.Errorf("state directory %s: not a directory of this user", path)
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}
