package survey

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/criu/procfs"
)

// pipe is a pipe of which the tree has an end.
type pipe struct {
	places
	target           string
	readers, writers bool
}

func (s *survey) addPipe(m *member, d *procfs.Descriptor) {
	if !strings.HasPrefix(d.Target, "pipe:[") {
		// One with a name: it is opened again by it.
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

// judgePipes finds those with an end outside: the tree has only one.
func (s *survey) judgePipes() {
	for _, inode := range slices.Sorted(maps.Keys(s.pipes)) {
		p := s.pipes[inode]
		if p.readers && p.writers {
			continue
		}
		kind := "pipe-write"
		if p.readers {
			kind = "pipe-read"
		}
		s.endpoint(image.Endpoint{Kind: kind, Key: p.target, Descriptors: p.list(), Standard: p.standard(s.members[0].PID)})
	}
}
