package inspect

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Foreign is a file that the tree has through a mount of another mount namespace: it was open
// before the tree, or its parent, entered its own namespace. CRIU treats such a file as external
// and wants it back by its key.
type Foreign struct {
	Key string `json:"key"`
	// Path is the path outside of the tree's mount namespace.
	Path string `json:"path"`
}

// findForeign finds files of other mount namespaces. Even a tree in phosd's namespace can have
// inherited them.
func (s *inspection) findForeign() error {
	root := s.members[0]
	mounts, err := proc.Mounts(root.PID)
	if err != nil {
		return err
	}
	for _, m := range s.members {
		for i := range m.descriptors {
			if d := &m.descriptors[i]; !isTerminal(d) {
				s.addForeign(
					mounts,
					s.descriptorSubject(m, d.Number),
					proc.File(m.PID, d.Number),
					d.Target,
					d.Writable(),
				)
			}
		}
		for i := range m.mappings {
			area := &m.mappings[i]
			s.addForeign(
				mounts,
				fmt.Sprintf("%s, mapping at %x", m, area.Start),
				area.File(m.PID),
				area.Path,
				area.Shared() && area.Writable(),
			)
		}
		for _, link := range []string{"exe", "cwd"} {
			path := proc.Path(m.PID, link)
			if target, err := os.Readlink(path); err == nil {
				s.addForeign(mounts, fmt.Sprintf("%s, %s", m, link), path, target, false)
			}
		}
	}
	return nil
}

// unmounted are the names of memory in file systems that are internal to the kernel and never
// mounted.
var unmounted = []string{"/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage"}

// addForeign checks one file of a process; at is a path below /proc, name the kernel's name of the
// file.
func (s *inspection) addForeign(mounts map[uint64]uint64, subject, at, name string, written bool) {
	if !strings.HasPrefix(name, "/") ||
		slices.ContainsFunc(unmounted, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return
	}
	var info unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &info) != nil ||
		info.Mask&unix.STATX_MNT_ID == 0 {
		return
	}
	if _, ok := mounts[info.Mnt_id]; ok {
		return
	}
	f := Foreign{Key: fmt.Sprintf("file[%x:%x]", info.Mnt_id, info.Ino), Path: name}
	if slices.Contains(s.Foreign, f) {
		return
	}
	if !sameFile(name, &info) {
		if now, err := os.Readlink(at); err != nil || now != name {
			return // a running process has opened another file in the meantime
		}
		s.refuse(
			subject,
			name+" belongs to a mount namespace that is neither the program's nor phosd's",
			"close it, or start the program without it",
		)
		return
	}
	if written && info.Mode&unix.S_IFMT == unix.S_IFREG && !s.Ours(name) && !s.sameBelow(name, &info) {
		s.refuse(subject, "writes "+name+", which lies outside of its container", "pipe the output")
		return
	}
	s.Foreign = append(s.Foreign, f)
	s.External = append(s.External, f.Key)
}

// sameFile reports whether path leads to the file of info, by inode and device.
func sameFile(path string, info *unix.Statx_t) bool {
	var now unix.Stat_t
	return unix.Stat(path, &now) == nil && isFile(&now, info)
}

// sameBelow is sameFile for a path below the tree's root.
func (s *inspection) sameBelow(path string, info *unix.Statx_t) bool {
	now, err := s.root.Stat(path)
	return err == nil && isFile(&now, info)
}

func isFile(now *unix.Stat_t, info *unix.Statx_t) bool {
	return now.Ino == info.Ino && unix.Major(now.Dev) == info.Dev_major && unix.Minor(now.Dev) == info.Dev_minor
}
