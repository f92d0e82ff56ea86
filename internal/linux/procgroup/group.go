package procgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// Group is a cgroup of version 2, and those of version 1 that belong to it.
type Group struct {
	// Directory is that of the cgroup of version 2.
	Directory string
	// legacy has the directories of version 1, by controller.
	legacy map[string]string
	limits []limit
	// self is the directory's own file. kill and events are files in it. They stay open: to kill needs
	// nothing of a file system then.
	self, kill, events *os.File
}

// Create makes the cgroup at a path below the topmost ones, with limits. The error is a LimitError
// if a limit cannot be set. A Group that was not created has left nothing, but for the directories
// above it.
func Create(path string, limits Limits) (*Group, error) {
	g, err := locate(path)
	if err != nil {
		return nil, err
	}
	if err := g.create(path, limits); err != nil {
		return nil, fmt.Errorf("create cgroup %s: %w", path, err)
	}
	return g, nil
}

// Open opens the cgroup at a path, which another process has created. The error is fs.ErrNotExist
// if nothing of it is left.
func Open(path string) (*Group, error) {
	g, err := locate(path)
	if err != nil {
		return nil, err
	}
	for _, controller := range []string{"cpu", "memory", "pids"} {
		top, err := cgroup.Legacy(controller)
		if errors.Is(err, cgroup.ErrNoController) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if directory := filepath.Join(top, path); exists(directory) {
			g.legacy[controller] = directory
		}
	}
	err = g.open()
	if errors.Is(err, fs.ErrNotExist) && len(g.legacy) > 0 {
		return g, nil // only the other version's are left, which have no process
	}
	return g, err
}

// locate returns the Group of a path, without looking whether it is there.
func locate(path string) (*Group, error) {
	if path == "." || !filepath.IsLocal(path) || filepath.Clean(path) != path || strings.Contains(path, "cgroup.") {
		return nil, fmt.Errorf("%q: %w", path, ErrPath)
	}
	top, err := cgroup.Top()
	if err != nil {
		return nil, err
	}
	return &Group{Directory: filepath.Join(top, path), legacy: map[string]string{}}, nil
}

// exists reports whether a cgroup is there.
func exists(directory string) bool {
	_, err := os.Stat(directory)
	return err == nil
}

// create makes the cgroups and sets the limits. It undoes all if it cannot.
func (g *Group) create(path string, limits Limits) (err error) {
	top, err := cgroup.Top()
	if err != nil {
		return err
	}
	g.limits = limits.list()
	var controllers []string
	for i := range g.limits {
		here, err := unified(top, g.limits[i].controller)
		if err != nil {
			return err
		}
		if here {
			controllers = append(controllers, g.limits[i].controller)
		} else if err := g.locateLegacy(&g.limits[i], path); err != nil {
			return err
		}
	}
	if err := g.makeAll(top, path, controllers); err != nil {
		return err
	}
	if err := errors.Join(g.limitAll(), g.open()); err != nil {
		return errors.Join(err, g.removeOnce(), g.Close())
	}
	return nil
}

// locateLegacy notes the directory of a limit whose controller is one of version 1.
func (g *Group) locateLegacy(l *limit, path string) error {
	top, err := cgroup.Legacy(l.controller)
	if err != nil {
		return l.fail(err)
	}
	g.legacy[l.controller] = filepath.Join(top, path)
	return nil
}

// makeAll makes the directories of both versions. What another process has made is not touched.
func (g *Group) makeAll(top, path string, controllers []string) error {
	if err := g.makeAbove(top, path, controllers); err != nil {
		return err
	}
	if err := makeNew(g.Directory); err != nil {
		return err
	}
	made := []string{g.Directory}
	for controller, directory := range g.legacy {
		err := os.MkdirAll(filepath.Dir(directory), 0o755)
		if err == nil {
			err = makeNew(directory)
		}
		if err != nil {
			for _, each := range made {
				err = errors.Join(err, os.Remove(each))
			}
			return fmt.Errorf("controller %s: %w", controller, err)
		}
		made = append(made, directory)
	}
	return nil
}

// makeNew makes a cgroup that must not exist.
func makeNew(directory string) error {
	err := os.Mkdir(directory, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

// makeAbove makes the cgroups of version 2 above the group's own, and hands the controllers down.
func (g *Group) makeAbove(top, path string, controllers []string) error {
	directory := top
	elements := strings.Split(path, "/")
	for i := range elements {
		if err := os.Mkdir(directory, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, controller := range controllers {
			if err := enable(directory, controller); err != nil {
				return g.failOf(controller, err)
			}
		}
		directory = filepath.Join(directory, elements[i])
	}
	return nil
}

// failOf returns the error for the limit of a controller.
func (g *Group) failOf(controller string, err error) error {
	for i := range g.limits {
		if g.limits[i].controller == controller {
			return g.limits[i].fail(err)
		}
	}
	return err
}

// limitAll sets the limits.
func (g *Group) limitAll() error {
	for i := range g.limits {
		l := &g.limits[i]
		directory, settings := g.Directory, l.settings
		if legacy := g.legacy[l.controller]; legacy != "" {
			directory, settings = legacy, l.legacy
		}
		if err := apply(directory, settings); err != nil {
			return l.fail(err)
		}
	}
	return nil
}

// open opens the files that are needed later.
func (g *Group) open() (err error) {
	if g.self, err = os.Open(g.Directory); err != nil {
		return err
	}
	if g.events, err = os.Open(filepath.Join(g.Directory, "cgroup.events")); err != nil {
		return err
	}
	g.kill, err = os.OpenFile(filepath.Join(g.Directory, "cgroup.kill"), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // before Linux 5.14
	}
	return err
}

// FD returns the descriptor of the cgroup of version 2, for starting processes in it.
func (g *Group) FD() int { return int(g.self.Fd()) }

// Close closes the files. The cgroups stay.
func (g *Group) Close() error {
	var all error
	for _, file := range []*os.File{g.self, g.kill, g.events} {
		if file != nil {
			all = errors.Join(all, file.Close())
		}
	}
	return all
}
