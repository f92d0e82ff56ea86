package restorer

import (
	"errors"
	"fmt"

	"github.com/phos-gpu/phos/criu/runner"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/freezer"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// ErrPIDTaken means that a pid of the image is another process's now.
var ErrPIDTaken = errors.New("pid is taken")

// PIDTaken says which, and by whom.
type PIDTaken struct {
	PID  int
	Name string
	// Zombie: it has ended, and its parent has not asked how.
	Zombie bool
	// Parent is that parent's pid, ParentName its name.
	Parent     int
	ParentName string
}

func (e *PIDTaken) Error() string {
	if e.Zombie {
		return fmt.Sprintf(
			"pid %d (%s) has ended, but it is a zombie until its parent, pid %d (%s), asks how: have that do so, end it, or restore with --new-pids",
			e.PID,
			e.Name,
			e.Parent,
			e.ParentName,
		)
	}
	return fmt.Sprintf(
		"pid %d is taken by another process (%s): end that one, or restore with --new-pids",
		e.PID,
		e.Name,
	)
}

// Is makes it an ErrPIDTaken.
func (e *PIDTaken) Is(target error) bool { return target == ErrPIDTaken }

// kinds are the errors that phosd tells apart.
var kinds = fdpass.Kinds{
	{Name: "pid", Err: ErrPIDTaken},
	{Name: "torn", Err: runner.ErrTorn},
	{Name: "restless", Err: freezer.ErrRestless},
	{Name: "gone", Err: proc.ErrGone},
}

func newAnswer(err error) answer { return answer{Outcome: kinds.Outcome(err)} }

func (a *answer) err() error { return kinds.Err(a.Outcome) }
