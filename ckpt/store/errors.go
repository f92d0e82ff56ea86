package store

import (
	"errors"
	"fmt"
)

// Errors of image directories. Damage is image.ErrMalformed.
var (
	// ErrNoImage means that the directory holds no image.
	ErrNoImage = errors.New("no image of phos is there; pos_cli --pre-dump and --dump make one")
	// ErrForeign means that something lies in the directory that is not part of an image.
	ErrForeign = errors.New("something else is in the directory")
	// ErrLocked means that somebody else writes into the image, or, for what removes it, uses it.
	ErrLocked = errors.New("in use")
	// ErrNoLocks means a file system without flock. Images are read there all the same, and not
	// written.
	ErrNoLocks = errors.New("the file system gives no locks")
	// ErrOwner means an image of one user that another one would write into, who could not read all of
	// it then, or let him.
	ErrOwner = errors.New("another user's image")
	// ErrNoGeneration means a generation that is not there.
	ErrNoGeneration = errors.New("no such generation")
	// ErrOlder means a generation that comes before one that is there.
	ErrOlder = errors.New("older")
	// ErrEnded means a transaction that was committed or taken back.
	ErrEnded = errors.New("the transaction has ended")
	// ErrNotRegular means that something other than a file of its own kind stands where one belongs.
	ErrNotRegular = errors.New("not a regular file")
)

// LockedError says who has the lock.
type LockedError struct {
	Path string
	// PID is 0 where the kernel does not tell.
	PID     int
	Command string
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("pid %d (%s)", e.PID, e.Command)
	}
	return fmt.Sprintf("image %s is %v by %s: try again when it has ended", e.Path, ErrLocked, who)
}

func (e *LockedError) Unwrap() error { return ErrLocked }
