package api

import (
	"fmt"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Place is the actor's process, if it is in a container: it knows processes by other pids, files by
// other paths, and what is restored for it belongs there. It is nobody for an actor who is where
// phosd is.
func (a Actor) Place() proc.Identity {
	id, err := proc.Of(int(a.PID))
	if err != nil || !id.Elsewhere("pid", "mnt") {
		return proc.Identity{}
	}
	return id
}

// Seen is an error for an actor whom phosd cannot see, as that of another container when phosd runs
// in one: what he knows by pids and paths is then known to nobody here.
func (a Actor) Seen() error {
	if a.PID <= 0 {
		return fmt.Errorf(
			"%w: the caller is in a pid namespace that phosd cannot see: call from where phosd runs, or from below",
			ErrNotPermitted,
		)
	}
	return nil
}

// Means is the process that the actor means by a pid.
func (a Actor) Means(pid uint32) (uint32, error) {
	if err := a.Seen(); err != nil {
		return 0, err
	}
	place := a.Place()
	if place.PID == 0 {
		return pid, nil
	}
	id, err := place.Seen(int(pid))
	if err != nil {
		return 0, fmt.Errorf("%w: pid %d", ErrNoProgram, pid)
	}
	return uint32(id.PID), nil
}

// Calls is the pid by which the actor knows a process, if it can see it.
func (a Actor) Calls(id proc.Identity) uint32 {
	place := a.Place()
	if place.PID != 0 {
		if pid := id.KnownTo(place); pid != 0 {
			return uint32(pid)
		}
	}
	return uint32(id.PID)
}
