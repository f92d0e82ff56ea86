package proc

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Namespace says which namespace of a kind a process is in: "pid:[4026531836]".
func (id Identity) Namespace(kind string) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", id.PID, kind))
}

// Elsewhere reports whether a process is in another namespace of one of these kinds than this one.
func (id Identity) Elsewhere(kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool {
		its, err := id.Namespace(kind)
		// Not /proc/self: that is the first thread, which may have entered another one for something
		// else.
		ours, ourErr := os.Readlink("/proc/thread-self/ns/" + kind)
		return err == nil && ourErr == nil && its != ours
	})
}

// SameRoot reports whether a process has the root directory that this one has.
func SameRoot(id Identity) bool {
	var its, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/root", id.PID), &its) != nil || unix.Stat("/", &ours) != nil ||
		its.Dev == ours.Dev && its.Ino == ours.Ino
}

// Seen finds the process that this one, which may be in a container, knows by a pid. The zero
// Identity knows what phosd does.
func (id Identity) Seen(pid int) (Identity, error) {
	if id.PID == 0 || !id.Elsewhere("pid") {
		return Of(pid)
	}
	all, err := All()
	if err != nil {
		return Identity{}, err
	}
	for _, other := range all {
		found, err := Of(other)
		if Unknown(err) {
			return Identity{}, err
		}
		if err == nil && id.name(found) == pid {
			return found, nil
		}
	}
	return Identity{}, fmt.Errorf("%w: pid %d, as pid %d sees it", ErrGone, pid, id.PID)
}

// name is the pid by which this process knows another one; 0 when it cannot see it.
func (id Identity) name(other Identity) int {
	if !id.Elsewhere("pid") {
		return other.PID
	}
	depth, names := len(pids(id.PID)), pids(other.PID)
	if depth == 0 || len(names) < depth || !below(other.PID, len(names)-depth, id) {
		return 0
	}
	return names[depth-1]
}

// KnownTo is the pid by which another process knows this one; 0 when it cannot see it.
func (id Identity) KnownTo(other Identity) int { return other.name(id) }

// Innermost is the pid that the process has for itself.
func (id Identity) Innermost() int {
	if names := pids(id.PID); len(names) > 0 {
		return names[len(names)-1]
	}
	return id.PID
}

// pids returns the pids of a process, from this namespace to its own; nil if it cannot be read.
func pids(pid int) []int {
	status, err := ReadStatus(pid)
	if err != nil {
		return nil
	}
	return status.PIDs
}

// below reports whether the pid namespace so many levels above a process's own is that of another
// process.
func below(pid, levels int, other Identity) bool {
	space, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		return false
	}
	defer func() { _ = space.Close() }()
	for range levels {
		fd, err := unix.IoctlRetInt(int(space.Fd()), unix.NS_GET_PARENT)
		if err != nil {
			return false
		}
		_ = space.Close()
		space = os.NewFile(uintptr(fd), "pid namespace")
	}
	var have, want unix.Stat_t
	return unix.Fstat(int(space.Fd()), &have) == nil && unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", other.PID), &want) == nil &&
		have.Ino == want.Ino &&
		have.Dev == want.Dev
}
