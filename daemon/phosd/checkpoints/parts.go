package checkpoints

import (
	"context"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/sessions"
	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Sessions is what this package needs of sessions.Sessions.
type Sessions interface {
	// All lists the sessions, Running those whose programs have not ended.
	All() []*sessions.Session
	Running() []*sessions.Session
	// Of lists the sessions of a process, Below those of processes and their descendants.
	Of(program proc.Identity) []*sessions.Session
	Below(roots []proc.Identity) []*sessions.Session
	// Restore starts a worker that restores a session.
	Restore(options sessions.RestoreOptions) (*sessions.Restoring, error)
	// SetCheckpoint records what became of a program's checkpoints.
	SetCheckpoint(s *sessions.Session, checkpoint rundir.Checkpoint)
	// Lost returns why a program that runs has no session, although it had one.
	Lost(program proc.Identity) error
	// FetchSettings asks workers in the background for what Session.Settings returns.
	FetchSettings()
}

// Devices is what this package needs of devices.Devices.
type Devices interface {
	GPUs() []gpu.DeviceInfo
	// Room returns how much memory of a GPU a restored program can have, and the GPU's memory.
	Room(ctx context.Context, gpu int) (free, capacity uint64)
}
