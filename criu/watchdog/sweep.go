package watchdog

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/orphans"
	"github.com/phos-gpu/phos/criu/repair"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Sweep undoes what killed watchdogs have left. phosd calls it at its start.
func Sweep() error {
	left, err := cgroup.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range left {
		failures = append(failures, endCRIU(orphan.Owner), release(orphan.Path))
	}
	return errors.Join(failures...)
}

// sweep undoes what one watchdog has left.
func sweep(owner proc.Identity) error {
	if owner.Check() == nil {
		_ = unix.Kill(owner.PID, unix.SIGKILL)
	}
	groups, err := cgroup.Find(cgroup.Name(groupKind, owner))
	failures := []error{err, endCRIU(owner)}
	for _, group := range groups {
		failures = append(failures, release(group))
	}
	return errors.Join(failures...)
}

// endCRIU ends the CRIU that a killed watchdog has left. It gets time to leave the processes in
// which it works, or to complete.
func endCRIU(owner proc.Identity) error {
	err := orphans.LetEnd(owner, runner.LeaveTime, func(pid int) {
		if status, err := proc.ReadStatus(pid); err == nil {
			_ = runner.DenyWrites(pid, runner.User{UID: status.UIDs[0], GID: status.GIDs[0]}) // else it may complete
		}
	})
	return errors.Join(err, orphans.EndSession(owner))
}

// release thaws the tree in a cgroup. If CRIU was working in it, it is repaired first, and killed
// if that is not possible.
func release(path string) error {
	group := freezer.At(path)
	before, err := repair.Stored(path)
	if err != nil || before == nil {
		return errors.Join(err, group.Thaw())
	}
	ctx, cancel := context.WithTimeout(context.Background(), refreezeTime)
	defer cancel()
	if err := leaveParasite(ctx, group, before); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), group.Kill())
	}
	// CRIU has mostly completed, and processes may have ended by themselves since.
	if err := before.WithoutEnded().Repair(); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrDamaged, err), group.Kill())
	}
	return group.Thaw()
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
