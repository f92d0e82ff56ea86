package proc

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Mounts returns the IDs of all mounts in the namespace of a process, and the device numbers of
// their file systems. These are the numbers in Mapping; stat(2) returns others on btrfs and
// overlayfs.
func Mounts(pid int) (map[uint64]uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	found := map[uint64]uint64{}
	for line := range strings.Lines(string(text)) {
		var id, parent uint64
		var major, minor uint32
		if _, err := fmt.Sscanf(line, "%d %d %d:%d ", &id, &parent, &major, &minor); err != nil {
			return nil, fmt.Errorf("mountinfo of pid %d: %q", pid, line)
		}
		found[id] = unix.Mkdev(major, minor)
	}
	return found, nil
}

// RootMounted reports whether the root directory of this process is a mount point. In a chroot to
// an ordinary directory it is not.
func RootMounted() (bool, error) {
	text, err := Mountinfo()
	return hasRoot(text), err
}

// Mountinfo returns what the kernel says of the mounts that the calling thread sees.
func Mountinfo() (string, error) {
	text, err := os.ReadFile(thread + "/mountinfo")
	return string(text), err
}

// Cgroups returns the cgroups of a process, a line for each hierarchy.
func Cgroups(pid int) (string, error) {
	text, err := os.ReadFile(Path(pid, "cgroup"))
	return string(text), err
}

// hasRoot reports whether a mount point in a mountinfo is "/".
func hasRoot(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return true
		}
	}
	return false
}
