package inspect

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockedFile identifies a file in /proc/locks.
type lockedFile struct{ device, inode uint64 }

// locks are the strongest locks that a tree holds on files: "read" or "write".
type locks map[lockedFile]string

// readLocks reads the locks of processes. Without /proc/locks there are none.
func readLocks(of map[int]*member) locks {
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	return parseLocks(string(text), func(pid int) bool { return of[pid] != nil })
}

// parseLocks parses lines like "1: POSIX  ADVISORY  WRITE 4711 08:01:1234 0 EOF". A process that
// waits for a lock has a line with "->", which holds none.
func parseLocks(text string, ours func(pid int) bool) locks {
	found := locks{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] == "->" {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil || !ours(pid) {
			continue
		}
		var major, minor uint32
		var file lockedFile
		if _, err := fmt.Sscanf(fields[5], "%x:%x:%d", &major, &minor, &file.inode); err != nil {
			continue
		}
		file.device = unix.Mkdev(major, minor)
		if kind := strings.ToLower(fields[3]); kind == "write" || found[file] == "" {
			found[file] = kind
		}
	}
	return found
}
