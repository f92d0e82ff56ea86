package freezer

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
)

// MountCgroups mounts the cgroup2 hierarchy at a directory, which it creates, if it is not mounted
// yet: for example in a new root file system. release undoes that.
func MountCgroups(directory string) (release func() error, err error) {
	if _, err := cgroup.Top(); !errors.Is(err, cgroup.ErrNone) {
		return func() error { return nil }, err
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount("cgroup2", directory, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", cgroup.ErrNone, err), os.Remove(directory))
	}
	return func() error {
		return errors.Join(unix.Unmount(directory, unix.MNT_DETACH), os.Remove(directory))
	}, nil
}
