package restorer

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// stageVariable is set in the second start.
const stageVariable = "PHOS_RESTORER_STAGE"

// initNamespace prepares a new pid namespace, in which this process is pid 1. Its argument is the
// pid after which the kernel continues to count: this process's threads must not take pids
// that the tree needs. After setting the counter the process executes itself again, so that only
// pid 1 is left.
func initNamespace(arguments []string) error {
	if len(arguments) == 0 || os.Getenv(stageVariable) != "" {
		return nil
	}
	last, err := strconv.Atoi(arguments[0])
	if err != nil || os.Getpid() != 1 {
		return fmt.Errorf("%w: pid namespace: pid is %d, want 1", ErrOrder, os.Getpid())
	}
	// Later mounts outside appear inside, but not the other way round.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
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
	return syscall.Exec(proc.OwnExecutable, os.Args, append(os.Environ(), stageVariable+"=1"))
}

// reservedPIDs is how many pids the restorer and CRIU may need for themselves.
const reservedPIDs = 400

// freeRange returns a pid that is followed by reservedPIDs pids which the image does not use. The
// new pid namespace starts to count there.
func freeRange(pids []int) int {
	used := map[int]bool{}
	for _, pid := range pids {
		used[pid] = true
	}
	start := 1 << 10
	for candidate := start; candidate < start+reservedPIDs; candidate++ {
		if used[candidate] {
			start = candidate + 1
		}
	}
	return start
}
