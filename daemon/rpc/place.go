package rpc

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/process"
)

// Place is the actor's process, if it is in a container: it knows processes by other pids, files by other paths, and what is
// restored for it belongs there. It is nobody for an actor who is where phosd is.
func (a Actor) Place() process.Identity {
	id, err := process.Of(int(a.PID))
	if err != nil || !id.Elsewhere("pid", "mnt") {
		return process.Identity{}
	}
	return id
}

// Means is the process that the actor means by a pid.
func (a Actor) Means(pid uint32) (uint32, error) {
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
func (a Actor) Calls(id process.Identity) uint32 {
	place := a.Place()
	if place.PID != 0 {
		if pid := id.KnownTo(place); pid != 0 {
			return uint32(pid)
		}
	}
	return uint32(id.PID)
}
