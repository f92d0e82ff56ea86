package survey

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/procfs"
)

// largestGhost is how large a file may be that has no name any more: it is saved in the image whole.
const largestGhost = 1 << 30

// Magic numbers of file systems whose files are the kernel's state, or its memory.
const (
	procMagic    = 0x9fa0
	sysMagic     = 0x62656572
	cgroup2Magic = 0x63677270
	mqueueMagic  = 0x19800202
)

// judgeRegular looks at a regular file.
func (s *survey) judgeRegular(m *member, d *procfs.Descriptor) {
	if strings.HasPrefix(d.Target, "/memfd:") || s.Ours(d.Target) {
		return
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", m.PID, d.Number)
	var where unix.Statfs_t
	if err := unix.Statfs(path, &where); err == nil {
		switch where.Type {
		case mqueueMagic:
			s.refuse(s.at(m, d.Number), "is a message queue, which is saved only with a whole IPC namespace", "close it")
			return
		case procMagic, sysMagic, cgroup2Magic:
			return
		}
	}
	s.addFile(s.at(m, d.Number), d.Target, &d.Stat, d.Writable())
}

// addMapped looks at a file that is mapped, shared and writable, whether open or not.
func (s *survey) addMapped(m *member, area *procfs.Mapping) {
	if strings.HasPrefix(area.Path, "/memfd:") || strings.HasPrefix(area.Path, "/dev/zero") || s.Ours(area.Path) {
		return
	}
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/map_files/%x-%x", m.PID, area.Start, area.End), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	s.addFile(fmt.Sprintf("%s, mapping at %x", m, area.Start), area.Path, &stat, true)
}

func (s *survey) addFile(subject, path string, stat *unix.Stat_t, writable bool) {
	if stat.Nlink == 0 {
		if stat.Size > largestGhost {
			s.refuse(subject, fmt.Sprintf("is a deleted file of %d bytes; up to %d can be saved", stat.Size, largestGhost), "keep the file until the program has ended")
		}
		return
	}
	if name, deleted := strings.CutSuffix(path, " (deleted)"); deleted {
		if s.User.UID != 0 {
			s.refuse(subject, name+" was deleted while another name of it is left; it is saved only for root", "keep the file under its name")
		}
		return
	}
	if writable {
		s.written[path] = stat.Size
	}
}

// judgeFiles lists the files that a restore must bring back.
func (s *survey) judgeFiles() {
	for _, path := range slices.Sorted(maps.Keys(s.written)) {
		size := s.written[path]
		if info, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", s.members[0].PID, path)); err == nil {
			size = info.Size()
		}
		s.Written = append(s.Written, ckpt.WrittenFile{Path: path, Bytes: size})
	}
}
