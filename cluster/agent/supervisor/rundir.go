package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/dirsync"
)

// Names of files in a run directory.
const (
	orderName  = "order.json"
	statusName = "status.json"
	socketName = "socket"
	logName    = "log"
	errorsName = "supervisor.log"
)

// version is that of order.json and of requests. A supervisor outlives upgrades of the agent.
const version = 1

// order is the content of order.json.
type order struct {
	Version int `json:"version"`
	Spec
	// Cgroup is the path of the attempt's own cgroup. A part of it is random, so that what is found
	// there is of this attempt.
	Cgroup string `json:"cgroup"`
	BootID string `json:"boot_id"`
}

// lock locks a run directory. The lock holds until all copies of the file are closed, also in other
// processes. The file is nil if another process has it.
func lock(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, file.Close())
}

// durability says whether a file must survive a power cut.
type durability bool

const (
	durable durability = true
	fast    durability = false
)

// writeJSON replaces a file in a directory: readers see the old or the new one.
func writeJSON(dir, name string, content any, d durability) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err == nil && d == durable {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil || d == fast {
		return err
	}
	return dirsync.Sync(dir)
}

// readJSON reads a file that writeJSON has written.
func readJSON(dir, name string, content any) error {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, content); err != nil {
		return fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}

// List returns the attempts that have a run directory in a directory, in the order of their names.
// Anything else there is passed over.
func List(root string) ([]Key, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	var keys []Key
	for _, entry := range entries {
		if key, err := ParseKey(entry.Name()); err == nil && entry.IsDir() {
			keys = append(keys, key)
		}
	}
	return slices.Clip(keys), nil
}
