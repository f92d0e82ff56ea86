// Package hardlink gives files second names for the time of a dump or a restore. A file that was
// opened under a name that was removed, while another name of it is left, as POSIX semaphores are
// made, is known to CRIU by the removed name only; so it gets that name again.
package hardlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// Alias is a removed name of a file that has another one.
type Alias struct {
	// Path is the removed name, as the kernel shows it: with " (deleted)" at its end, which here is a
	// part of it.
	Path string `json:"path"`
	// Name is the one that is left.
	Name string `json:"name"`
}

// Made are aliases that are there.
type Made struct {
	user  fsuid.Rights
	top   string
	paths []string
}

// Make makes the second names, with a user's rights; top is the root directory below which the
// paths are.
func Make(user fsuid.Rights, top string, aliases []Alias) (*Made, error) {
	made := &Made{user: user, top: top}
	err := user.Do(func() error {
		for _, a := range aliases {
			path := filepath.Join(top, a.Path)
			// One that an interrupted dump has left.
			if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("second name of %s: %w", a.Name, err)
			}
			if err := os.Link(filepath.Join(top, a.Name), path); err != nil {
				return fmt.Errorf("second name of %s: %w", a.Name, err)
			}
			made.paths = append(made.paths, path)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, made.Remove())
	}
	return made, nil
}

// Remove takes them away again.
func (m *Made) Remove() error {
	return m.user.Do(func() error {
		var failures []error
		for _, path := range m.paths {
			if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
				failures = append(failures, fmt.Errorf("remove %s: %w", path, err))
			}
		}
		return errors.Join(failures...)
	})
}
