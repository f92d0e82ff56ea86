package proc

import (
	"fmt"
	"slices"
)

// status reads the state of exactly this process. It returns ErrGone if its pid belongs to another
// process by now.
func (id Identity) status() (*Status, error) {
	status, err := ReadStatus(id.PID)
	if err != nil {
		return nil, err
	}
	return status, id.Check()
}

// Groups lists the supplementary groups of the process.
func (id Identity) Groups() ([]uint32, error) {
	status, err := id.status()
	if err != nil {
		return nil, err
	}
	return status.Groups, nil
}

// UID returns the real user id of the process. It comes from /proc/PID/status and not from the
// owner of /proc/PID, which is root for a process that is not dumpable.
func (id Identity) UID() (uint32, error) {
	status, err := id.status()
	if err != nil {
		return 0, err
	}
	return status.UIDs[0], nil
}

// VisibleTo reports whether a user may learn about the process: users must not learn about each
// other's.
func (id Identity) VisibleTo(user uint32) bool {
	uid, err := id.UID()
	return user == 0 || err == nil && uid == user
}

// DescribeTo names the process for a user: "pid 7 (sh)".
func (id Identity) DescribeTo(user uint32) string {
	if !id.VisibleTo(user) {
		return "a process of another user"
	}
	return fmt.Sprintf("pid %d (%s)", id.PID, id.Name())
}

// CanBeSignaledBy reports whether a process of a user without capabilities may send signals to the
// process, by the rule of kill(2): the user is the real or the saved one of the process.
func (id Identity) CanBeSignaledBy(uid uint32) (bool, error) {
	status, err := id.status()
	if err != nil {
		return false, err
	}
	return uid == 0 || status.UIDs[0] == uid || status.UIDs[2] == uid, nil
}

// ActsOnlyAs reports whether uid is the real, effective and saved user id of the process. It is
// false for a process that has executed a setuid program.
func (id Identity) ActsOnlyAs(uid uint32) (bool, error) {
	status, err := id.status()
	if err != nil {
		return false, err
	}
	// The file system user id is left out: without privileges it can only become one of these three.
	return !slices.ContainsFunc(status.UIDs[:3], func(other uint32) bool { return other != uid }), nil
}
