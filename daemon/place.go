package daemon

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/daemon/rpc"
)

// placeOf is the caller of a request, if he is in a container: it knows processes by other pids, files by other paths, and
// what is restored for it belongs there. It is nobody for a caller who is where phosd is.
func placeOf(actor rpc.Actor) process.Identity {
	id, err := process.Of(int(actor.PID))
	if err != nil || !id.Elsewhere("pid", "mnt") {
		return process.Identity{}
	}
	return id
}

// pidOf is the process that a caller means by a pid.
func pidOf(actor rpc.Actor, pid uint32) (uint32, error) {
	place := placeOf(actor)
	if place.PID == 0 {
		return pid, nil
	}
	id, err := place.Seen(int(pid))
	if err != nil {
		return 0, fmt.Errorf("%w: pid %d", rpc.ErrNoProgram, pid)
	}
	return uint32(id.PID), nil
}

// pidFor is the pid by which a caller knows a process, if it can see it.
func pidFor(actor rpc.Actor, id process.Identity) uint32 {
	place := placeOf(actor)
	if place.PID != 0 {
		if pid := id.KnownTo(place); pid != 0 {
			return uint32(pid)
		}
	}
	return uint32(id.PID)
}
