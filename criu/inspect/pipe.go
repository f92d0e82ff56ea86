package inspect

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// pipe is a pipe of which the tree holds an end.
type pipe struct {
	places
	target           string
	readers, writers bool
}

func (s *inspection) addPipe(m *member, d *proc.Descriptor) {
	if !strings.HasPrefix(d.Target, "pipe:[") {
		// A named pipe; CRIU opens it again by its name.
		return
	}
	p := s.pipes[d.Stat.Ino]
	if p == nil {
		p = &pipe{target: d.Target}
		s.pipes[d.Stat.Ino] = p
	}
	p.add(m.PID, d.Number)
	mode := d.Flags & unix.O_ACCMODE
	p.readers = p.readers || mode != unix.O_WRONLY
	p.writers = p.writers || mode != unix.O_RDONLY
}

// peerClosed reports whether no process has the other end open. Then only the tree can read what
// the pipe still holds, so it is saved with the tree.
func (s *inspection) peerClosed(p *pipe) bool {
	for i, pid := range p.pids {
		file, err := proc.Borrow(pid, p.numbers[i])
		s.noteUnknown(err)
		if err != nil {
			continue // the process has ended; another one may have the pipe, too
		}
		polled := []unix.PollFd{{Fd: int32(file.Fd())}}
		_, err = unix.Poll(polled, 0)
		_ = file.Close()
		if err == nil {
			return polled[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		}
	}
	return false
}

// checkPipes adds an endpoint for each pipe whose other end is outside of the tree.
func (s *inspection) checkPipes() {
	for _, inode := range slices.Sorted(maps.Keys(s.pipes)) {
		p := s.pipes[inode]
		if p.readers && p.writers || s.peerClosed(p) {
			continue
		}
		kind := "pipe-write"
		if p.readers {
			kind = "pipe-read"
		}
		s.addEndpoint(
			image.Endpoint{Kind: kind, Key: p.target, Descriptors: p.list(), Standard: p.standard(s.members[0].PID)},
		)
	}
}
