package api

import (
	"fmt"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Container returns the caller's process if it is in another pid or mount namespace than phosd:
// then its pids and paths differ from phosd's, and trees are restored into its namespaces.
// Otherwise it returns the zero Identity. It fails if the caller has ended: the caller's namespaces
// are unknown then, and phosd must not use its own instead.
func (a Caller) Container() (proc.Identity, error) {
	if err := a.Identified(); err != nil {
		return proc.Identity{}, err
	}
	elsewhere, err := a.Process.Elsewhere("pid", "mnt")
	if err != nil {
		return proc.Identity{}, fmt.Errorf("%w: the caller: %w", ErrNotPermitted, err)
	}
	if !elsewhere {
		return proc.Identity{}, nil
	}
	return a.Process, nil
}

// RequireRootHere returns an error unless the caller is root, and outside of containers: phosd's
// keys and its end are the machine's. The root of a container without a user namespace has user id
// 0, too. what completes "only root may".
func (a Caller) RequireRootHere(what string) error {
	if err := a.RequireRoot(what); err != nil {
		return err
	}
	if err := a.CheckVisible(); err != nil {
		return err
	}
	place, err := a.Container()
	if err != nil {
		return err
	}
	if place.PID != 0 {
		return fmt.Errorf("%w: only root outside of containers may %s, and this caller is in another pid or mount "+
			"namespace than phosd; ask from phosd's", ErrNotPermitted, what)
	}
	return nil
}

// CheckVisible returns an error if the caller's process is not visible to phosd, for example
// because phosd runs in another container. Then phosd cannot translate its pids and paths.
func (a Caller) CheckVisible() error {
	if a.Process.PID <= 0 {
		return fmt.Errorf(
			"%w: the caller is in a pid namespace that phosd cannot see: call from phosd's pid namespace, or from one below it",
			ErrNotPermitted,
		)
	}
	return nil
}

// HostProcess returns the process that has a pid in the caller's namespace now. The caller of
// HostProcess uses no number after that: another process may have it by then.
func (a Caller) HostProcess(pid uint32) (proc.Identity, error) {
	if err := a.CheckVisible(); err != nil {
		return proc.Identity{}, err
	}
	place, err := a.Container()
	if err != nil {
		return proc.Identity{}, err
	}
	id, err := place.Seen(int(pid))
	switch {
	case proc.Unknown(err):
		return proc.Identity{}, fmt.Errorf("pid %d: %w", pid, err)
	case err != nil:
		return proc.Identity{}, fmt.Errorf("%w: pid %d", ErrNoProgram, pid)
	}
	return id, nil
}

// CallerPID returns the pid of a process in the caller's namespace, or phosd's pid if the caller
// cannot see the process or has ended.
func (a Caller) CallerPID(id proc.Identity) uint32 {
	if place, err := a.Container(); err == nil && place.PID != 0 {
		if pid := id.KnownTo(place); pid != 0 {
			return uint32(pid)
		}
	}
	return uint32(id.PID)
}
