package fsuid

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Rights are those of a user's process: user, group and supplementary groups.
type Rights struct {
	UID, GID uint32
	Groups   []uint32
}

// Do runs work with these rights to files. work must open everything on its own goroutine: other
// goroutines have phosd's rights. For root it is a plain call.
func (r Rights) Do(work func() error) error { return r.DoAfter(nil, work) }

// DoAfter is Do with a function that runs before on the same thread, with phosd's rights. before
// may enter namespaces.
func (r Rights) DoAfter(before, work func() error) error {
	if r.UID == 0 && before == nil {
		return work()
	}
	done := make(chan error, 1)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine, and nothing else runs on it
		// with the user's rights.
		runtime.LockOSThread()
		var err error
		defer func() {
			// A panic must fail the request and not the process, as it would on the caller's
			// goroutine.
			if fault := recover(); fault != nil {
				err = fmt.Errorf("act as user %d: panic: %v", r.UID, fault)
			}
			done <- err
		}()
		if before != nil {
			if err = before(); err != nil {
				return
			}
		}
		if r.UID != 0 {
			err = r.assume()
		}
		if err == nil {
			err = work()
		}
	}()
	return <-done
}

// assume changes this thread's identity. The kernel then removes the file capabilities of the
// thread.
func (r Rights) assume() error {
	if err := setThreadGroups(r.Groups); err != nil {
		return fmt.Errorf("act as user %d: groups: %w", r.UID, err)
	}
	// These calls return the old value and never an error, so read the values back.
	if _, err := unix.SetfsgidRetGid(int(r.GID)); err != nil {
		return fmt.Errorf("act as user %d: group %d: %w", r.UID, r.GID, err)
	}
	if _, err := unix.SetfsuidRetUid(int(r.UID)); err != nil {
		return fmt.Errorf("act as user %d: %w", r.UID, err)
	}
	gid, _ := unix.SetfsgidRetGid(-1)
	uid, _ := unix.SetfsuidRetUid(-1)
	if uint32(uid) != r.UID || uint32(gid) != r.GID {
		return fmt.Errorf("act as user %d: %w", r.UID, unix.EPERM)
	}
	return nil
}

// Equal reports whether both have the same user, group and supplementary groups.
func (r Rights) Equal(other Rights) bool {
	return r.UID == other.UID && r.GID == other.GID && slices.Equal(r.Groups, other.Groups)
}
