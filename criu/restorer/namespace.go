package restorer

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageVariable tells the second start from the first.
const stageVariable = "PHOS_KEEPER_STAGE"

// settle arranges a new pid namespace, where this is its pid 1. The one argument is the pid after
// which it counts on: the threads of this process must not have the pids that the tree will need,
// so once the counter is set, the process starts itself again, and only pid 1 remains of what it
// had.
func settle(arguments []string) error {
	if len(arguments) == 0 || os.Getenv(stageVariable) != "" {
		return nil
	}
	last, err := strconv.Atoi(arguments[0])
	if err != nil || os.Getpid() != 1 {
		return fmt.Errorf("%w: keeper of a pid namespace, but its pid is %d", ErrOrder, os.Getpid())
	}
	// What is mounted outside later is seen inside, never the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("own mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(last)), 0); err != nil {
		return fmt.Errorf("count pids from %d: %w", last, err)
	}
	if _, err := unix.FcntlInt(orderFD, unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("keep the socket: %w", err)
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), stageVariable+"=1"))
}

// roomForThreads is how many pids a keeper and CRIU may need for themselves.
const roomForThreads = 400

// gap finds a pid such that the following ones are used by nobody in the image: where a new pid
// namespace counts on.
func gap(pids []int) int {
	used := map[int]bool{}
	for _, pid := range pids {
		used[pid] = true
	}
	start := 1 << 10
	for candidate := start; candidate < start+roomForThreads; candidate++ {
		if used[candidate] {
			start = candidate + 1
		}
	}
	return start
}
