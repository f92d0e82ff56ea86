package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is an open state directory.
type Dir struct {
	path   string
	memory string // where work in memory lies; empty where there is none
	key    Key
}

// Options say where things lie.
type Options struct {
	// Path is the state directory.
	Path string
	// MemoryPath is where a tmpfs for small work may be mounted; empty for none.
	MemoryPath string
	// MemoryBytes is how much it may hold.
	MemoryBytes uint64
}

// Open makes the directory ready, and the key at the first time. What a former phosd left unfinished is removed.
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
	var err error
	if d.key, err = openKey(filepath.Join(d.keys(), keyName)); err != nil {
		return nil, err
	}
	if err := empty(d.work()); err != nil {
		return nil, err
	}
	return d, d.openMemory(options.MemoryBytes)
}

// openMemory mounts the tmpfs, or goes without where mounting is not allowed.
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
	// A former phosd may have mounted it, and with another size.
	_ = unix.Unmount(d.memory, unix.MNT_DETACH)
	options := fmt.Sprintf("mode=0700,size=%d", bytes)
	if bytes == 0 || unix.Mount("phos-work", d.memory, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options) != nil {
		d.memory = ""
	}
	return nil
}

// Close gives back what is only good while phosd runs.
func (d *Dir) Close() error {
	if d.memory == "" {
		return nil
	}
	memory := d.memory
	d.memory = ""
	if err := unix.Unmount(memory, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", memory, err)
	}
	return os.Remove(memory)
}

func (d *Dir) keys() string      { return filepath.Join(d.path, "key") }
func (d *Dir) imported() string  { return filepath.Join(d.path, "keys") }
func (d *Dir) work() string      { return filepath.Join(d.path, "work") }
func (d *Dir) libraries() string { return filepath.Join(d.path, "lib") }

const (
	private os.FileMode = 0o700
	// passable directories show nothing, but who knows a path below may go there: a restored program is checkpointed again
	// by its user, who must find the library that it has mapped.
	passable os.FileMode = 0o711
)

// ownDirectory makes a directory of this user's, or refuses one that is somebody else's.
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

// empty removes everything in a directory.
func empty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	var failures []error
	for _, entry := range entries {
		failures = append(failures, os.RemoveAll(filepath.Join(path, entry.Name())))
	}
	return errors.Join(failures...)
}
