package store

import (
	"errors"
	"fmt"
)

// Errors of image directories. Damage is image.ErrMalformed.
var (
	// ErrNoImage is returned when the directory holds no image.
	ErrNoImage = errors.New("no image of phos is there; pos_cli --pre-dump and --dump make one")
	// ErrForeign is returned when the directory holds something that is not part of an image.
	ErrForeign = errors.New("directory is not empty and not a phos image")
	// ErrLocked is returned when another process writes to the image, or, for a removal, uses it.
	ErrLocked = errors.New("in use")
	// ErrNoLocks is returned on a file system without flock, where images can be read but not
	// written.
	ErrNoLocks = errors.New("file system has no locks")
	// ErrOwner is returned when one user would write into another user's image. Afterwards neither
	// could read all of it.
	ErrOwner = errors.New("another user's image")
	// ErrNoGeneration is returned for a generation that does not exist.
	ErrNoGeneration = errors.New("no such generation")
	// ErrOlder is returned for a generation that precedes an existing one.
	ErrOlder = errors.New("older")
	// ErrTransactionEnded is returned for a transaction that was committed or aborted.
	ErrTransactionEnded = errors.New("the transaction has ended")
	// ErrNotRegular is returned when a name is not a regular file or directory, as it should be.
	ErrNotRegular = errors.New("not a regular file")
)

// LockedError says which process holds the lock.
type LockedError struct {
	Path string
	// PID is 0 if the kernel does not report it.
	PID     int
	Command string
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("pid %d (%s)", e.PID, e.Command)
	}
	return fmt.Sprintf("image %s is %v by %s: try again when it has ended", e.Path, ErrLocked, holder)
}

func (e *LockedError) Unwrap() error { return ErrLocked }
