package watchdog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Sweep undoes what killed watchdogs have left. phosd calls it at its start.
func Sweep() error {
	left, err := cgroup.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range left {
		failures = append(failures, orphans.EndSession(orphan.Owner), freezer.At(orphan.Path).Thaw())
	}
	return errors.Join(failures...)
}

// sweep undoes what one watchdog has left.
func sweep(owner proc.Identity) error {
	if owner.Check() == nil {
		_ = unix.Kill(owner.PID, unix.SIGKILL)
	}
	groups, err := cgroup.Find(cgroup.Name(groupKind, owner))
	failures := []error{err, orphans.EndSession(owner)}
	for _, group := range groups {
		failures = append(failures, freezer.At(group).Thaw())
	}
	return errors.Join(failures...)
}

// killFor kills the tree that a watchdog has left frozen.
func killFor(owner proc.Identity) error {
	groups, err := cgroup.Find(cgroup.Name(groupKind, owner))
	if err == nil && len(groups) == 0 {
		err = fmt.Errorf("kill: %w: the tree is no longer frozen", ErrOrder)
	}
	failures := []error{err, orphans.EndSession(owner)}
	for _, group := range groups {
		failures = append(failures, freezer.At(group).Kill())
	}
	return errors.Join(failures...)
}
