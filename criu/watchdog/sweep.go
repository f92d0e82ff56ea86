package watchdog

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/criu/freezer"
	"github.com/phos-gpu/phos/criu/procfs"
	"github.com/phos-gpu/phos/daemon/process"
)

// Sweep takes back what watchdogs have left that were killed themselves: for a phosd that starts.
func Sweep() error {
	orphans, err := freezer.Orphans(groupKind)
	failures := []error{err}
	for _, orphan := range orphans {
		failures = append(failures, endSession(orphan.Owner.PID), orphan.Thaw())
	}
	return errors.Join(failures...)
}

// sweep takes back what one watchdog has left.
func sweep(owner process.Identity) error {
	if owner.Check() == nil {
		_ = unix.Kill(owner.PID, unix.SIGKILL)
	}
	groups, err := freezer.Find(freezer.Name(groupKind, owner))
	failures := []error{err, endSession(owner.PID)}
	for _, group := range groups {
		failures = append(failures, group.Thaw())
	}
	return errors.Join(failures...)
}

// killFor ends the tree that a watchdog has left frozen.
func killFor(owner process.Identity) error {
	groups, err := freezer.Find(freezer.Name(groupKind, owner))
	if err == nil && len(groups) == 0 {
		err = fmt.Errorf("kill: %w: the tree is not frozen any more", ErrOrder)
	}
	failures := []error{err, endSession(owner.PID)}
	for _, group := range groups {
		failures = append(failures, group.Kill())
	}
	return errors.Join(failures...)
}

// endSession ends CRIU and its helpers: all that is in the session of a watchdog that has ended. While there are such,
// its pid is given to nobody else.
func endSession(session int) error {
	pids, err := procfs.All()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		stat, err := procfs.ReadStat(pid)
		if err != nil || stat.Session != session || stat.Zombie() || pid == session {
			continue
		}
		handle, err := process.Open(stat.Identity)
		if err != nil {
			continue
		}
		if err := handle.Signal(unix.SIGKILL); err == nil {
			stop := time.AfterFunc(settleTime, func() { _ = handle.Close() })
			_ = handle.Wait() // returns when it is closed, too
			stop.Stop()
		}
		_ = handle.Close()
	}
	return nil
}
