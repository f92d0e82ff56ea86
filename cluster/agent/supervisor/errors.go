package supervisor

import (
	"errors"
	"io/fs"

	"github.com/phos-gpu/phos/internal/linux/cgroup"
	"github.com/phos-gpu/phos/internal/linux/fdpass"
	"github.com/phos-gpu/phos/internal/linux/procgroup"
)

// Errors of this package. What happened to what stands in the text around them. Start also returns
// a procgroup.LimitError for a limit that cannot be set.
var (
	// ErrInvalid means that a Spec cannot be run anywhere.
	ErrInvalid = errors.New("invalid order")
	// ErrExists means that the attempt was started before.
	ErrExists = errors.New("the attempt was started before")
	// ErrNotFound means that there is no run directory of the attempt.
	ErrNotFound = errors.New("no run directory of this attempt")
	// ErrEnded means that no process of the attempt is left.
	ErrEnded = errors.New("the attempt has ended")
	// ErrFenced means that the deadline had passed before it was extended.
	ErrFenced = errors.New("the deadline has passed; the processes were killed")
	// ErrProcess means that the attempt has no such process now.
	ErrProcess = errors.New("no such process")
	// ErrRefused means that the supervisor does not know a request.
	ErrRefused = errors.New("the supervisor refuses the request")
	// ErrImposter means that another process answers at the supervisor's socket.
	ErrImposter = errors.New("another process answers at the socket of the supervisor")
)

// kinds are the errors that both sides distinguish.
var kinds = fdpass.Kinds{
	{Name: "limit", Err: procgroup.ErrLimit},
	{Name: "cgroups", Err: cgroup.ErrNone},
	{Name: "exists", Err: procgroup.ErrExists},
	{Name: "path", Err: procgroup.ErrPath},
	{Name: "invalid", Err: ErrInvalid},
	{Name: "ended", Err: ErrEnded},
	{Name: "fenced", Err: ErrFenced},
	{Name: "process", Err: ErrProcess},
	{Name: "refused", Err: ErrRefused},
	{Name: "missing", Err: fs.ErrNotExist}, // a program
}
