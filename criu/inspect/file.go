package inspect

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/criu/hardlink"
	"github.com/phos-gpu/phos/internal/linux/proc"

	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

// maxGhostBytes is the largest size of a file without a name that can be saved; its whole content
// goes into the image.
const maxGhostBytes = 1 << 30

// Magic numbers of file systems whose files are kernel state or memory.
const (
	procMagic    = 0x9fa0
	sysMagic     = 0x62656572
	cgroup2Magic = 0x63677270
	mqueueMagic  = 0x19800202
)

// checkRegular checks an open regular file.
func (s *inspection) checkRegular(m *member, d *proc.Descriptor) {
	if strings.HasPrefix(d.Target, "/memfd:") || s.Ours(d.Target) {
		return
	}
	path := proc.File(m.PID, d.Number)
	var where unix.Statfs_t
	if err := unix.Statfs(path, &where); err == nil {
		switch where.Type {
		case mqueueMagic:
			s.refuse(
				s.descriptorSubject(m, d.Number),
				"is a message queue, which is saved only with a whole IPC namespace",
				"close it",
			)
			return
		case procMagic, sysMagic, cgroup2Magic:
			return
		}
	}
	s.addFile(s.descriptorSubject(m, d.Number), d.Target, &d.Stat, &d.Info)
}

// addMapped checks a shared writable mapping of a file, open or not.
func (s *inspection) addMapped(m *member, area *proc.Mapping) {
	if strings.HasPrefix(area.Path, "/memfd:") || strings.HasPrefix(area.Path, "/dev/zero") || s.Ours(area.Path) {
		return
	}
	var stat unix.Stat_t
	if err := unix.Stat(area.File(m.PID), &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	s.addFile(fmt.Sprintf("%s, mapping at %x", m, area.Start), area.Path, &stat, &proc.Info{Flags: unix.O_RDWR})
	if file := s.written[strings.TrimSuffix(area.Path, " (deleted)")]; file != nil {
		file.Mapped = true
	}
}

// addFile records a regular file that CRIU will open by its path.
func (s *inspection) addFile(subject, path string, stat *unix.Stat_t, info *proc.Info) {
	mode := info.Flags & unix.O_ACCMODE
	if stat.Nlink == 0 {
		if stat.Size > maxGhostBytes {
			s.refuse(
				subject,
				fmt.Sprintf("is a deleted file of %d bytes; up to %d can be saved", stat.Size, maxGhostBytes),
				"keep the file until the program ends",
			)
		}
		return
	}
	if strings.HasSuffix(path, " (deleted)") && !s.stillNamed(path, stat) {
		name, found := s.findOtherName(path, stat)
		if !found {
			s.refuse(
				subject,
				path+" has another name, which is not in the same directory",
				"keep the file under its name",
			)
			return
		}
		s.addLink(hardlink.Link{Path: path, Name: name})
		// A process that opens the file again by the other name expects the program's content. So
		// it must be restored, whatever the access mode was.
		path, mode = name, unix.O_RDWR
	}
	s.addOpened(subject, path, mode)
	s.locks[path] = proc.StrongerLock(s.locks[path], info.Lock)
	if mode == unix.O_RDONLY {
		return
	}
	file := s.written[path]
	if file == nil {
		file = &ckpt.WrittenFile{Path: path, Bytes: stat.Size, Append: true}
		s.written[path] = file
	}
	file.Append = file.Append && info.Flags&unix.O_APPEND != 0
}

// opened says where a file is open, and which access its user needs to open it again.
type opened struct {
	subject string
	access  uint32
}

// addOpened records a path and the access that a restore needs.
func (s *inspection) addOpened(subject, path string, mode int) {
	file := s.opened[path]
	if file.subject == "" {
		file.subject = subject
	}
	if mode != unix.O_WRONLY {
		file.access |= unix.R_OK
	}
	if mode != unix.O_RDONLY {
		file.access |= unix.W_OK
	}
	s.opened[path] = file
}

// checkAccess finds files that the program's user may not open: a restore could not open them
// either.
func (s *inspection) checkAccess() error {
	if s.User.UID == 0 {
		return nil
	}
	return fsuid.Rights(s.User).Do(func() error {
		for _, path := range slices.Sorted(maps.Keys(s.opened)) {
			file := s.opened[path]
			// not access(2): that checks the real user, which is root here
			if err := s.root.Access(path, file.access); errors.Is(
				err,
				unix.EACCES,
			) {
				s.refuse(
					file.subject,
					fmt.Sprintf("has %s open, which user %d may not open", path, s.User.UID),
					"let the user own the file, or pipe the output",
				)
			}
		}
		return nil
	})
}

// stillNamed reports whether the file is still at path, whose suffix only looks like that of a
// deleted file.
func (s *inspection) stillNamed(path string, stat *unix.Stat_t) bool {
	now, err := s.root.Lstat(path)
	return err == nil && now.Ino == stat.Ino && now.Dev == stat.Dev
}

// findOtherName returns the name that a file still has after one was removed. The C library creates
// a semaphore under a temporary name, links it to the requested name, and removes the first one.
func (s *inspection) findOtherName(path string, stat *unix.Stat_t) (string, bool) {
	directory := filepath.Dir(path)
	entries, err := s.root.ReadDir(directory)
	s.noteUnknown(err)
	if err != nil {
		return "", false
	}
	for _, entry := range entries {
		name := filepath.Join(directory, entry.Name())
		if other, err := s.root.Lstat(name); err == nil && other.Ino == stat.Ino && other.Dev == stat.Dev {
			return name, true
		}
	}
	return "", false
}

// addLink records a removed name that CRIU needs, once.
func (s *inspection) addLink(a hardlink.Link) {
	if !slices.Contains(s.Links, a) {
		s.Links = append(s.Links, a)
	}
}

// listFiles lists the files that a restore must restore.
func (s *inspection) listFiles() {
	for _, path := range slices.Sorted(maps.Keys(s.written)) {
		file := *s.written[path]
		file.Lock = s.locks[path]
		if info, err := s.root.Stat(path); err == nil {
			file.Bytes = info.Size
		}
		s.Written = append(s.Written, file)
	}
}
