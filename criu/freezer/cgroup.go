package freezer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoCgroups means that the kernel, or the container in which this process is, has no cgroups of version 2.
var ErrNoCgroups = errors.New("no cgroups of version 2 here: mount cgroup2 on /sys/fs/cgroup or /sys/fs/cgroup/unified")

// mount is where the hierarchy of version 2 is mounted, and which cgroup is its top.
type mount struct{ point, top string }

func findMount(mountinfo string) (mount, error) {
	for line := range strings.Lines(mountinfo) {
		// 36 35 0:30 /root /point options - cgroup2 source options
		before, after, found := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if found && len(fields) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
			return mount{point: unescape(fields[4]), top: unescape(fields[3])}, nil
		}
	}
	return mount{}, ErrNoCgroups
}

func hierarchy() (mount, error) {
	// Not /proc/self: that is the first thread, which may have entered a container for something else.
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return mount{}, err
	}
	return findMount(string(text))
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

// Of finds the directory of the cgroup in which a process is.
func Of(pid int) (string, error) {
	top, err := hierarchy()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			return top.directory(pid, strings.TrimSuffix(path, " (deleted)"))
		}
	}
	return "", fmt.Errorf("pid %d: %w", pid, ErrNoCgroups)
}

func (m mount) directory(pid int, path string) (string, error) {
	below, err := filepath.Rel(m.top, path)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") || strings.HasPrefix(path, "/..") {
		return "", fmt.Errorf("pid %d is in cgroup %s, which %s does not show", pid, path, m.point)
	}
	return filepath.Join(m.point, below), nil
}

// procs lists the processes of a cgroup.
func procs(directory string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(directory, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", directory, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// put moves a process, with all its threads, into a cgroup.
func put(directory string, pid int) error { return write(directory, "cgroup.procs", strconv.Itoa(pid)) }

func write(directory, name, text string) error {
	// os.WriteFile would create what is not there.
	file, err := os.OpenFile(filepath.Join(directory, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// removed says that a cgroup is gone: systemd takes those of a unit away, with what is below, as soon as nobody is in it. A file
// of it that was open before says ENODEV.
func removed(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// event reads one of the flags in cgroup.events.
func event(file *os.File, name string) (bool, error) {
	var text [4096]byte
	n, err := file.ReadAt(text[:], 0)
	if n == 0 && err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text[:n])) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value == "1", nil
		}
	}
	return false, fmt.Errorf("%s says nothing of %q", file.Name(), name)
}
