package watchdog

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/freezer"
	"github.com/phos-gpu/phos/criu/remains"
	"github.com/phos-gpu/phos/daemon/cgroup"
	"github.com/phos-gpu/phos/daemon/process"
)

// Sweep takes back what watchdogs have left that were killed themselves: for a phosd that starts.
func Sweep() error {
	orphans, err := cgroup.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range orphans {
		failures = append(failures, remains.EndSession(orphan.Owner), freezer.At(orphan.Path).Thaw())
	}
	return errors.Join(failures...)
}

// sweep takes back what one watchdog has left.
func sweep(owner process.Identity) error {
	if owner.Check() == nil {
		_ = unix.Kill(owner.PID, unix.SIGKILL)
	}
	groups, err := cgroup.Find(cgroup.Name(groupKind, owner))
	failures := []error{err, remains.EndSession(owner)}
	for _, group := range groups {
		failures = append(failures, freezer.At(group).Thaw())
	}
	return errors.Join(failures...)
}

// killFor ends the tree that a watchdog has left frozen.
func killFor(owner process.Identity) error {
	groups, err := cgroup.Find(cgroup.Name(groupKind, owner))
	if err == nil && len(groups) == 0 {
		err = fmt.Errorf("kill: %w: the tree is not frozen any more", ErrOrder)
	}
	failures := []error{err, remains.EndSession(owner)}
	for _, group := range groups {
		failures = append(failures, freezer.At(group).Kill())
	}
	return errors.Join(failures...)
}
