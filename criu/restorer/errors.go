package restorer

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/savedfile"
	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrPIDTaken is returned when a pid of the image belongs to another process.
var ErrPIDTaken = errors.New("pid is taken")

// PIDTaken says which pid is taken, and by which process.
type PIDTaken struct {
	PID int
	// Name is empty for a process of another user.
	Name string
	// Zombie is set if the process has ended but was not waited for.
	Zombie bool
	// Parent and ParentName identify its parent. The name is empty if that is of another user.
	Parent     int
	ParentName string
}

func (e *PIDTaken) Error() string {
	name := ""
	if e.Name != "" {
		name = " (" + e.Name + ")"
	}
	switch {
	case e.Zombie && e.ParentName == "":
		return fmt.Sprintf("pid %d%s is a zombie until its parent, a process of another user, waits for it: "+
			"restore with --new-pids", e.PID, name)
	case e.Zombie:
		return fmt.Sprintf("pid %d%s is a zombie until its parent, pid %d (%s), waits for it: "+
			"end the parent, or restore with --new-pids", e.PID, name, e.Parent, e.ParentName)
	case e.Name == "":
		return fmt.Sprintf("pid %d is taken by a process of another user: restore with --new-pids", e.PID)
	}
	return fmt.Sprintf("pid %d is taken by another process%s: end it, or restore with --new-pids", e.PID, name)
}

// Is reports whether target is ErrPIDTaken.
func (e *PIDTaken) Is(target error) bool { return target == ErrPIDTaken }

// kinds are the errors that phosd distinguishes.
var kinds = fdpass.Kinds{
	{Name: "pid", Err: ErrPIDTaken},
	{Name: "torn", Err: runner.ErrAborted},
	{Name: "not-frozen", Err: freezer.ErrNotFrozen},
	{Name: "gone", Err: proc.ErrGone},
	{Name: "changed", Err: savedfile.ErrChanged},
	{Name: "lost", Err: ckpt.ErrMemoryLost},
	{Name: "untracked", Err: ckpt.ErrUntracked},
}

func newAnswer(err error) answer { return answer{Outcome: kinds.Outcome(err)} }

func (a *answer) err() error { return kinds.Err(a.Outcome) }
