package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// lost are directories of a host that are empty after a boot, with the options of their file
// systems.
var lost = map[string]string{"/run": "mode=755", "/tmp": "mode=1777", "/dev/shm": "mode=1777"}

// kept are directories of a host that a reboot keeps.
var kept = []string{settings, "/var/lib", "/var/log"}

// settings is a copy of the machine's when the host is new; the others are empty then.
const settings = "/etc"

// SharedDir is the directory that all hosts of a test share. Each user may write there.
const SharedDir = "/mnt"

// bootIDFile is where programs read the boot id.
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// mountAll makes the files of a host what they are. It runs in the host's namespaces, and leaves
// out what only a process of the host can mount: /proc.
func (h *Host) mountAll(machine []proc.Mount) error {
	visible, err := cloneVisible(h.fleet.visible)
	if err != nil {
		return err
	}
	for _, directory := range kept {
		if err := bind(h.source(directory), directory); err != nil {
			return err
		}
	}
	if err := h.bindSmallDisks(); err != nil {
		return err
	}
	for directory, options := range lost { // after kept, whose sources are in these
		if err := mount("tmpfs", directory, "tmpfs", options); err != nil {
			return err
		}
	}
	for _, err := range []error{
		bind(h.fleet.shared(), SharedDir), bind(h.bootIDSource(), bootIDFile), mountSys(machine), visible.attach(),
	} {
		if err != nil {
			return err
		}
	}
	const locks = "/run/lock" // which /var/lock leads to
	return errors.Join(os.Mkdir(locks, 0o755), os.Chmod(locks, os.ModeSticky|0o777))
}

// mount mounts a new file system.
func mount(source, point, kind, options string) error {
	if err := unix.Mount(source, point, kind, 0, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", kind, point, err)
	}
	return nil
}

// bind makes a directory or a file visible at another place.
func bind(source, point string) error {
	if err := unix.Mount(source, point, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", source, point, err)
	}
	return nil
}

// trees are copies of mounts that are attached once the mounts around them are new.
type trees []tree

type tree struct {
	point string
	fd    int
}

// clone copies the mount of a directory, and those below it.
func clone(point string, flags uint) (tree, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, point, flags|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return tree{}, fmt.Errorf("copy the mount of %s: %w", point, err)
	}
	return tree{point, fd}, nil
}

// cloneVisible copies the mounts of those directories that lie below private ones.
func cloneVisible(directories []string) (copies trees, err error) {
	for _, each := range directories {
		path, err := filepath.EvalSymlinks(each)
		if errors.Is(err, fs.ErrNotExist) || each == "" {
			continue
		}
		if err != nil || !private(path) || slices.ContainsFunc(copies, func(t tree) bool { return t.point == path }) {
			if err != nil {
				return copies, err
			}
			continue
		}
		copied, err := clone(path, unix.AT_RECURSIVE)
		if err != nil {
			return copies, err
		}
		copies = append(copies, copied)
	}
	// Those inside others come later.
	slices.SortFunc(copies, func(a, b tree) int { return strings.Compare(a.point, b.point) })
	return copies, nil
}

// private reports whether a path lies below a directory that each host has for itself.
func private(path string) bool {
	below := func(directory string) bool { return strings.HasPrefix(path, directory+"/") }
	for directory := range lost {
		if below(directory) {
			return true
		}
	}
	return slices.ContainsFunc(kept, below) || below(SharedDir)
}

// attach mounts the copies at their places, which it makes.
func (t trees) attach() error {
	for _, each := range t {
		if err := os.MkdirAll(each.point, 0o755); err != nil {
			return err
		}
		err := unix.MoveMount(each.fd, "", unix.AT_FDCWD, each.point, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err := errors.Join(err, unix.Close(each.fd)); err != nil {
			return fmt.Errorf("attach %s: %w", each.point, err)
		}
	}
	return nil
}

// mountSys mounts /sys, which shows the network devices of the namespace in which it is mounted,
// with the host's own cgroups. All else below is as on the machine.
func mountSys(machine []proc.Mount) error {
	var others trees
	for _, each := range machine {
		if strings.HasPrefix(each.Point, "/sys/") && !isCgroup(each) {
			copied, err := clone(each.Point, 0)
			if err != nil {
				return err
			}
			others = append(others, copied)
		}
	}
	// Programs that look for the cgroups must not find those of the machine first.
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount /sys: %w", err)
	}
	if err := mount("sysfs", "/sys", "sysfs", ""); err != nil {
		return err
	}
	if err := others.attach(); err != nil {
		return err
	}
	for _, each := range machine {
		if !isCgroup(each) || !strings.HasPrefix(each.Point, "/sys/") {
			continue
		}
		if err := mount(each.Kind, each.Point, each.Kind, hierarchyOptions(each)); err != nil {
			return err
		}
	}
	return nil
}

func isCgroup(mount proc.Mount) bool { return mount.Kind == "cgroup" || mount.Kind == "cgroup2" }

// hierarchyOptions returns the options that name a hierarchy of cgroups.
func hierarchyOptions(mount proc.Mount) string {
	var names []string
	if mount.Kind == "cgroup" {
		for option := range strings.SplitSeq(mount.Options, ",") {
			name, _, valued := strings.Cut(option, "=")
			if valued && name == "name" {
				names = append(names, "none", option)
			} else if !valued && !slices.Contains([]string{"rw", "ro", "xattr", "clone_children", "noprefix"}, name) {
				names = append(names, option)
			}
		}
	}
	return strings.Join(names, ",")
}
