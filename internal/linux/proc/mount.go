package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is a line of /proc/PID/mountinfo.
type Mount struct {
	ID uint64
	// Device is the device number of the file system.
	Device uint64
	// Root is the directory of the file system that is mounted at Point.
	Root, Point string
	// Kind is the kind of file system; Options are those of the file system, not of the mount.
	Kind, Options string
}

// Mounts returns the IDs of all mounts in the namespace of a process, and the device numbers of
// their file systems. These are the numbers in Mapping; stat(2) returns others on btrfs and
// overlayfs.
func Mounts(pid int) (map[uint64]uint64, error) {
	mounts, err := mountsOf(pid)
	if err != nil {
		return nil, err
	}
	found := map[uint64]uint64{}
	for _, each := range mounts {
		found[each.ID] = each.Device
	}
	return found, nil
}

// mountsOf reads the mounts in the namespace of a process.
func mountsOf(pid int) ([]Mount, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		return nil, err
	}
	mounts, err := ParseMounts(string(text))
	if err != nil {
		return nil, fmt.Errorf("pid %d: %w", pid, err)
	}
	return mounts, nil
}

// ParseMounts parses the text of a mountinfo file. Mounts come after those that they are in.
func ParseMounts(text string) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(text) {
		mount, err := parseMount(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// parseMount parses a line: 36 35 0:30 /root /point options [more...] - kind source options.
func parseMount(line string) (Mount, error) {
	before, after, found := strings.Cut(line, " - ")
	fields, rest := strings.Fields(before), strings.Fields(after)
	var mount Mount
	var parent uint64
	var major, minor uint32
	_, err := fmt.Sscanf(line, "%d %d %d:%d ", &mount.ID, &parent, &major, &minor)
	if err != nil || !found || len(fields) < 6 || len(rest) < 2 {
		return Mount{}, fmt.Errorf("mountinfo: line %q is malformed", line)
	}
	mount.Device = unix.Mkdev(major, minor)
	mount.Root, mount.Point, mount.Kind = unescape(fields[3]), unescape(fields[4]), rest[0]
	mount.Options = rest[len(rest)-1]
	return mount, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if value, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(value))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
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
