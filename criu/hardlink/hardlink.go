// Package hardlink gives removed names back to files for the time of a dump or a restore. CRIU
// knows a file only by the name under which it was opened. If that name was removed while the file
// has another one (POSIX semaphores are created like this), CRIU needs the removed name again.
package hardlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
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
	root  *rootdir.Root
	paths []string
}

// Create creates the links with a user's rights. All paths are below root, which must stay open
// until Remove.
func Create(user fsuid.Rights, root *rootdir.Root, links []Link) (*Links, error) {
	made := &Links{user: user, root: root}
	err := user.Do(func() error {
		for _, a := range links {
			// An interrupted dump may have left this link.
			if err := root.Unlink(a.Path); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("link to %s: %w", a.Name, err)
			}
			if err := root.Link(a.Name, a.Path); err != nil {
				return fmt.Errorf("link to %s: %w", a.Name, err)
			}
			made.paths = append(made.paths, a.Path)
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
			if err := m.root.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
				failures = append(failures, fmt.Errorf("remove %s: %w", path, err))
			}
		}
		return errors.Join(failures...)
	})
}
