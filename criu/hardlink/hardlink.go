// Package hardlink gives removed names back to files for the time of a dump or a restore. CRIU
// knows a file only by the name under which it was opened. If that name was removed while the file
// has another one (POSIX semaphores are created like this), CRIU needs the removed name again.
package hardlink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// Link is a removed name of a file that has another one.
type Link struct {
	// Path is the removed name, as the kernel shows it. The suffix " (deleted)" is part of it here.
	Path string `json:"path"`
	// Name is the name that the file still has.
	Name string `json:"name"`
}

// Links are links that were created.
type Links struct {
	user  fsuid.Rights
	top   string
	paths []string
}

// Create creates the links with a user's rights. The paths are relative to the root directory top.
func Create(user fsuid.Rights, top string, links []Link) (*Links, error) {
	made := &Links{user: user, top: top}
	err := user.Do(func() error {
		for _, a := range links {
			path := filepath.Join(top, a.Path)
			// An interrupted dump may have left this link.
			if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("link to %s: %w", a.Name, err)
			}
			if err := os.Link(filepath.Join(top, a.Name), path); err != nil {
				return fmt.Errorf("link to %s: %w", a.Name, err)
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

// Remove removes the links.
func (m *Links) Remove() error {
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
