package savedfile

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// fileID identifies a file, whatever its path is.
type fileID struct{ device, inode uint64 }

// findWriters returns for each file a process that has it open or mapped for writing. It leaves out
// this process and those in except.
func findWriters(files map[fileID]bool, except []int) (map[fileID]proc.Identity, error) {
	found := make(map[fileID]proc.Identity)
	if len(files) == 0 {
		return found, nil
	}
	pids, err := proc.All()
	if err != nil {
		return nil, fmt.Errorf("find processes that write files: %w", err)
	}
	for _, pid := range pids {
		if pid == os.Getpid() || slices.Contains(except, pid) {
			continue
		}
		written := writtenBy(pid, files)
		if len(written) == 0 {
			continue
		}
		id, err := proc.Of(pid)
		if err != nil {
			continue // the process has ended
		}
		for _, file := range written {
			if _, known := found[file]; !known {
				found[file] = id
			}
		}
	}
	return found, nil
}

// writtenBy returns which of the files a process may write. Errors mean that it has ended.
func writtenBy(pid int, files map[fileID]bool) (written []fileID) {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	for _, entry := range entries {
		var stat unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", pid, entry.Name()), &stat) != nil ||
			!files[fileID{stat.Dev, stat.Ino}] {
			continue
		}
		if opensForWriting(pid, entry.Name()) {
			written = append(written, fileID{stat.Dev, stat.Ino})
		}
	}
	// Most processes map nothing shared: parse only the maps of those that do.
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil || !bytes.Contains(maps, []byte(" rw-s ")) && !bytes.Contains(maps, []byte(" -w-s ")) {
		return written
	}
	mappings, _ := proc.Mappings(pid)
	for i := range mappings {
		m := &mappings[i]
		if !m.Shared() || !m.Writable() || !strings.HasPrefix(m.Path, "/") {
			continue
		}
		var stat unix.Stat_t
		if unix.Stat(m.File(pid), &stat) == nil && files[fileID{stat.Dev, stat.Ino}] {
			written = append(written, fileID{stat.Dev, stat.Ino})
		}
	}
	return written
}

// opensForWriting reports whether a descriptor of a process may be written.
func opensForWriting(pid int, descriptor string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, descriptor))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var flags int
		if _, err := fmt.Sscanf(line, "flags:\t%o", &flags); err == nil {
			return flags&unix.O_PATH == 0 && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}
