package savedfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/bounded"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// fileID identifies a file by what stat(2) returns.
type fileID struct{ device, inode uint64 }

func (f *found) id() fileID { return fileID{f.stat.Dev, f.stat.Ino} }

// search looks for processes that have some files open or mapped for writing. It makes a request to
// a file system only if one of the files lies on it: another one may be a dead mount, on which
// stat(2) hangs.
type search struct {
	ids map[fileID]bool
	// places has device and inode of the files as /proc has them, which are not those of stat(2) on
	// some file systems. Before Linux 5.14 the inodes are unknown.
	places map[fileID]bool
	inodes map[uint64]bool
	// devices has the devices of places. anywhere is set if one is unknown.
	devices  map[uint64]bool
	anywhere bool
	// overlaid are the names of files on overlayfs. Older kernels give the mappings of such files
	// the device of a layer.
	overlaid map[string]bool
	mounts   mountTable
}

// newSearch returns a search for files below a root, by path.
func newSearch(root *rootdir.Root, files map[string]*found) *search {
	s := &search{
		ids: make(map[fileID]bool), places: make(map[fileID]bool), inodes: make(map[uint64]bool),
		devices: make(map[uint64]bool), overlaid: make(map[string]bool),
	}
	for name, f := range files {
		device, known := s.mounts.device(root.PID(), f.mount)
		s.ids[f.id()], s.inodes[f.inode] = true, true
		s.places[fileID{device, f.inode}], s.devices[device] = true, true
		s.anywhere = s.anywhere || !known
		if f.system == unix.OVERLAYFS_SUPER_MAGIC {
			s.overlaid[filepath.Base(name)] = true
		}
	}
	return s
}

// Times for looking at processes. processTime is for one, and processesTime for all that do not
// answer, together. After that each has shortestTime.
const (
	processTime   = 2 * time.Second
	processesTime = 10 * time.Second
	shortestTime  = 50 * time.Millisecond
)

// users are processes that have files open. A process that may write one is no reader of it.
type users struct {
	writers, readers map[fileID]proc.Identity
	// unknown are the processes of which it cannot be found out.
	unknown []unasked
}

// unasked is a process that did not say which files it has open.
type unasked struct {
	proc.Identity
	why error
}

// describeTo says why a process may have a file open.
func (u *unasked) describeTo(uid uint32) string {
	why := u.why.Error()
	if errors.Is(u.why, bounded.ErrSilent) {
		why = "does not respond"
	}
	return u.DescribeTo(uid) + " may have it open for writing, but " + why
}

// add adds what a process has open.
func (u *users) add(id proc.Identity, has use) {
	for _, file := range has.written {
		if _, known := u.writers[file]; !known {
			u.writers[file] = id
		}
	}
	for _, file := range has.read {
		if _, known := u.readers[file]; !known {
			u.readers[file] = id
		}
	}
}

// use are the files that a process may write, or has only open for reading.
type use struct{ written, read []fileID }

// find returns for each file a process among pids that has it open or mapped for writing, and one
// that has it open.
func (s *search) find(pids []int) users {
	found := users{writers: make(map[fileID]proc.Identity), readers: make(map[fileID]proc.Identity)}
	if len(s.ids) == 0 {
		return found
	}
	left := processesTime
	for _, pid := range pids {
		id, err := proc.Of(pid)
		if err != nil {
			continue // the process has ended
		}
		uid, err := id.UID()
		if err != nil {
			continue
		}
		began, limit := time.Now(), max(min(processTime, left), shortestTime)
		has, silent := bounded.Call(bounded.Question{UID: uid, Of: id}, limit, func() use { return s.usedBy(pid) })
		if silent != nil {
			found.unknown = append(found.unknown, unasked{id, silent})
			left -= time.Since(began)
		}
		if id.Check() != nil {
			continue // another process may have got the pid
		}
		found.add(id, has)
	}
	return found
}

// usedBy returns which of the files a process has open. Errors mean that it has ended.
func (s *search) usedBy(pid int) (has use) {
	numbers, _ := proc.Numbers(pid)
	for _, number := range numbers {
		link := proc.File(pid, number)
		info, err := proc.ReadInfo(pid, number)
		switch {
		case err != nil || !s.mayBe(pid, link, &info):
		case info.Writable():
			has.written = s.add(has.written, link)
		case info.Flags&unix.O_PATH == 0:
			has.read = s.add(has.read, link)
		}
	}
	// Most processes map nothing shared: parse only the maps of those that do.
	maps, err := os.ReadFile(proc.Path(pid, "maps"))
	if err != nil || !bytes.Contains(maps, []byte(" rw-s ")) && !bytes.Contains(maps, []byte(" -w-s ")) {
		return has
	}
	for m, err := range proc.EachMapping(pid) {
		if err != nil || !m.Shared() || !m.Writable() || !strings.HasPrefix(m.Path, "/") {
			continue
		}
		if s.places[fileID{m.Device, m.Inode}] || s.anywhere && s.inodes[m.Inode] || s.overlaid[filepath.Base(m.Path)] {
			has.written = s.add(has.written, m.File(pid))
		}
	}
	return has
}

// add adds the file behind a link of /proc, if it is one of the files.
func (s *search) add(found []fileID, link string) []fileID {
	var now unix.Statx_t
	// DONT_SYNC: a file server may have stopped to answer.
	if unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &now) != nil {
		return found
	}
	if id := (fileID{unix.Mkdev(now.Dev_major, now.Dev_minor), now.Ino}); s.ids[id] {
		found = append(found, id)
	}
	return found
}

// mayBe reports whether a descriptor may be one of the files. link is its link in /proc.
func (s *search) mayBe(pid int, link string, info *proc.Info) bool {
	if info.Inode != 0 && !s.inodes[info.Inode] {
		return false
	}
	device, known := s.mounts.device(pid, info.Mount)
	switch {
	case !known:
		// The mount is detached, or internal to the kernel: such files have no path.
		name, err := os.Readlink(link)
		return err == nil && strings.HasPrefix(name, "/")
	case s.anywhere:
		return true
	case info.Inode == 0:
		return s.devices[device]
	}
	return s.places[fileID{device, info.Inode}]
}

// Writers returns for each of these paths below a root a process among pids that has the file open
// or mapped for writing. It looks with the rights of a user.
func Writers(as fsuid.Rights, root *rootdir.Root, paths []string, pids []int) map[string]proc.Identity {
	files := make(map[string]*found, len(paths))
	for _, name := range paths {
		got, err := bounded.Call(bounded.Question{UID: as.UID, Of: root.Key(name)}, bounded.FileTime, func() *found {
			f, err := statBelow(as, root, name)
			if err != nil {
				return nil
			}
			return &f
		})
		if err == nil && got != nil {
			files[name] = got
		}
	}
	writers := newSearch(root, files).find(pids).writers
	byPath := make(map[string]proc.Identity)
	for name, f := range files {
		if id, ok := writers[f.id()]; ok {
			byPath[name] = id
		}
	}
	return byPath
}

// others returns all processes but this one and those in except.
func others(except []int) ([]int, error) {
	pids, err := proc.All()
	if err != nil {
		return nil, fmt.Errorf("find processes that write files: %w", err)
	}
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() || slices.Contains(except, pid) }), nil
}
