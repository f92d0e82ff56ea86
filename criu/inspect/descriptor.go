package inspect

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// knownKinds are the kinds of descriptors without a file that CRIU supports.
var knownKinds = []string{"eventfd", "eventpoll", "signalfd", "timerfd", "inotify", "fanotify", "pidfd"}

// rejectedKinds are kinds with their own reason and remedy.
var rejectedKinds = map[string][2]string{
	"io_uring": {
		"is an io_uring; its requests in flight cannot be saved",
		"have the program use ordinary input and output (PyTorch: USE_LIBUV=0, or use_libuv=False for a TCPStore; " +
			"libuv: UV_USE_IO_URING=0)",
	},
	"userfaultfd": {"is a userfaultfd; memory that it serves cannot be saved", ""},
	"perf_event":  {"is a performance counter", "end the profiler"},
}

// Fixed device numbers: /dev/null and the like, NVIDIA's GPUs, and the kernel's own GPU drivers.
const (
	memoryMajor = 1
	nvidiaMajor = 195
	renderMajor = 226
)

// gpuDevice matches device files of other GPU libraries.
var gpuDevice = regexp.MustCompile(`^/dev/(nvidia|dri/|kfd|dxg|davinci|infiniband/)`)

// checkDescriptors checks the open files of a process.
func (s *inspection) checkDescriptors(m *member) {
	for i := range m.descriptors {
		d := &m.descriptors[i]
		switch d.Format() {
		case unix.S_IFIFO:
			s.addPipe(m, d)
		case unix.S_IFSOCK:
			s.addSocket(m, d)
		case unix.S_IFCHR:
			s.checkCharacters(m, d)
		case unix.S_IFBLK:
			s.refuse(s.descriptorSubject(m, d.Number), d.Target+" is a block device", "close it")
		case unix.S_IFREG:
			s.checkRegular(m, d)
		case unix.S_IFDIR, unix.S_IFLNK:
		default:
			s.checkNameless(m, d)
		}
	}
}

// checkNameless checks a descriptor without a file, such as "anon_inode:[eventfd]".
func (s *inspection) checkNameless(m *member, d *proc.Descriptor) {
	kind := strings.Trim(strings.TrimPrefix(d.Target, "anon_inode:"), "[]")
	if kind == "inotify" && s.User.UID != 0 {
		s.refuse(
			s.descriptorSubject(m, d.Number),
			"is an inotify, which is saved only for root",
			"close it, or have the program poll",
		)
		return
	}
	if slices.Contains(knownKinds, kind) {
		return
	}
	why, ok := rejectedKinds[kind]
	if !ok {
		why = [2]string{fmt.Sprintf("is a %s, which CRIU does not support", kind), "close it"}
	}
	s.note(ckpt.Obstacle{Subject: s.descriptorSubject(m, d.Number), Reason: why[0], Remedy: why[1], Inode: d.Stat.Ino})
}

// checkCharacters checks a character device.
func (s *inspection) checkCharacters(m *member, d *proc.Descriptor) {
	path := strings.TrimSuffix(d.Target, " (deleted)")
	switch {
	case isTerminal(d):
		s.addTerminal(m, d)
	case gpuDevice.MatchString(path) || unix.Major(d.Stat.Rdev) == nvidiaMajor ||
		unix.Major(d.Stat.Rdev) == renderMajor:
		s.refuse(
			s.descriptorSubject(m, d.Number),
			path+" belongs to another GPU library: the program uses a GPU past phos",
			"start it so that it finds only phos's library",
		)
	case unix.Major(d.Stat.Rdev) == memoryMajor:
	case path == "/dev/net/tun":
	default:
		s.refuse(s.descriptorSubject(m, d.Number), path+" is a device whose state cannot be saved", "close it")
	}
}

// checkMappings checks mapped files, which need not be open.
func (s *inspection) checkMappings(m *member) {
	for i := range m.mappings {
		area := &m.mappings[i]
		subject := fmt.Sprintf("%s, mapping at %x", m, area.Start)
		switch path := area.Path; {
		case path == "" || strings.HasPrefix(path, "["):
		case strings.HasPrefix(path, "anon_inode:"):
			kind := strings.Trim(strings.TrimPrefix(path, "anon_inode:"), "[]")
			if why, ok := rejectedKinds[kind]; ok {
				s.refuse(subject, why[0], why[1])
			} else {
				s.refuse(subject, fmt.Sprintf("is memory of a %s, which CRIU does not support", kind), "")
			}
		case strings.HasPrefix(path, "/SYSV"):
			s.refuse(
				subject,
				"is System V shared memory, which is saved only with a whole IPC namespace",
				"have the program use POSIX shared memory or a file",
			)
		case gpuDevice.MatchString(path):
			s.refuse(
				subject,
				path+" belongs to another GPU library: the program uses a GPU past phos",
				"start it so that it finds only phos's library",
			)
		case strings.HasPrefix(path, "/dev/") && !memoryFile(path):
			s.refuse(subject, path+" is memory of a device", "close it")
		case area.Shared() && area.Writable():
			s.addMapped(m, area)
		}
	}
}

// memoryFile reports whether a path below /dev is ordinary memory and not a device's.
func memoryFile(path string) bool {
	path = strings.TrimSuffix(path, " (deleted)")
	return path == "/dev/zero" || strings.HasPrefix(path, "/dev/shm/") || strings.HasPrefix(path, "/dev/hugepages/") ||
		strings.HasPrefix(path, "/dev/mqueue/")
}

// mappedPaths returns the paths of all mapped files. Adjacent mappings of one file count once.
func mappedPaths(mappings []proc.Mapping) (paths []string) {
	for i := range mappings {
		if path := mappings[i].Path; strings.HasPrefix(path, "/") && (len(paths) == 0 || paths[len(paths)-1] != path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// findLibrary returns the path of the libphos.so that a process has mapped.
func findLibrary(mappings []proc.Mapping) string {
	for i := range mappings {
		if name := filepath.Base(mappings[i].Path); strings.HasPrefix(name, "libphos.so") {
			return strings.TrimSuffix(mappings[i].Path, " (deleted)")
		}
	}
	return ""
}
