package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OwnExecutable is the program that this process runs, even if its file was replaced.
const OwnExecutable = "/proc/self/exe"

// Path returns the path of a file about a process, for system calls that take one.
func Path(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// Root returns a path of the root directory of a process.
func Root(pid int) string { return Path(pid, "root") }

// File returns a path of an open file of a process.
func File(pid, number int) string { return Path(pid, "fd/"+strconv.Itoa(number)) }

// OwnFile returns a path of an open file of the process that uses the path.
func OwnFile(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// Memory is the file with the memory of a process, by address. An open one keeps to the address
// space that the process had.
func Memory(pid int) string { return fmt.Sprintf("/proc/%d/mem", pid) }

// Pagemap is the file that says of each page of a process where it is, likewise.
func Pagemap(pid int) string { return fmt.Sprintf("/proc/%d/pagemap", pid) }

// ThreadFile is OwnFile for a thread that acts as another user: /proc/self is the first thread.
func ThreadFile(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// PathOf returns the path by which the kernel knows an open file of this process.
func PathOf(fd int) (string, error) { return os.Readlink(OwnFile(fd)) }

// WorkingDirectory returns the path of the working directory of a process, in its mount namespace.
func WorkingDirectory(pid int) (string, error) { return os.Readlink(Path(pid, "cwd")) }

// Numbers lists the numbers of the open files of a process.
func Numbers(pid int) ([]int, error) {
	entries, err := os.ReadDir(Path(pid, "fd"))
	numbers := make([]int, 0, len(entries))
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil {
			numbers = append(numbers, number)
		}
	}
	return numbers, err
}

// Dumpable reports whether a user may read the process. The files in /proc of an undumpable process
// belong to root.
func Dumpable(pid int, uid uint32) bool {
	var info unix.Stat_t
	return unix.Stat(Path(pid, "environ"), &info) != nil || info.Uid == uid
}

// OpenMemory opens the memory of a process, with the flags of open.
func OpenMemory(pid, how int) (*os.File, error) { return os.OpenFile(Path(pid, "mem"), how, 0) }

// SetName sets the name that ps and top show of this process.
func SetName(name string) error { return os.WriteFile("/proc/self/comm", []byte(name), 0) }

// BootID returns the id of this run of the machine's kernel.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id of this machine: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}
