package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Elsewhere reports whether the process is in another namespace than this one, for any of the
// kinds. It returns ErrGone for a process that has ended, or that is a zombie: these are in no
// namespace, which must not be taken for this process's. The zero Identity stands for this process.
func (id Identity) Elsewhere(kinds ...string) (elsewhere bool, err error) {
	if id.PID == 0 {
		return false, nil
	}
	for _, kind := range kinds {
		its, err := id.Namespace(kind)
		if Gone(err) {
			return false, fmt.Errorf("%w: pid %d", ErrGone, id.PID)
		}
		if err != nil {
			return false, err
		}
		ours, err := OwnNamespace(kind)
		if err != nil {
			return false, err
		}
		elsewhere = elsewhere || its != ours
	}
	return elsewhere, id.Check()
}

// SameRoot reports whether a process has the same root directory as this one.
func SameRoot(id Identity) bool {
	var its, ours unix.Stat_t
	return unix.Stat(fmt.Sprintf("/proc/%d/root", id.PID), &its) != nil || unix.Stat("/", &ours) != nil ||
		its.Dev == ours.Dev && its.Ino == ours.Ino
}

// Seen returns the process that has pid in the pid namespace of id, which may be in a container.
// The zero Identity stands for phosd's namespace.
func (id Identity) Seen(pid int) (Identity, error) {
	elsewhere, err := id.Elsewhere("pid")
	if err != nil {
		return Identity{}, err
	}
	if !elsewhere {
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

// name returns the pid of other in the pid namespace of id; 0 if it is not visible there.
func (id Identity) name(other Identity) int {
	elsewhere, err := id.Elsewhere("pid")
	if err != nil {
		return 0
	}
	if !elsewhere {
		return other.PID
	}
	depth, names := len(pids(id.PID)), pids(other.PID)
	if depth == 0 || len(names) < depth || !below(other.PID, len(names)-depth, id) {
		return 0
	}
	return names[depth-1]
}

// KnownTo returns the pid of id in the pid namespace of other; 0 if it is not visible there.
func (id Identity) KnownTo(other Identity) int { return other.name(id) }

// Innermost returns the pid in the process's own pid namespace.
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

// below reports whether the pid namespace that is so many levels above a process's own is that of
// other.
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
	return unix.Fstat(int(space.Fd()), &have) == nil &&
		unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", other.PID), &want) == nil &&
		have.Ino == want.Ino &&
		have.Dev == want.Dev
}
