package inspect

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Major numbers of terminals.
const (
	ttyMajor        = 4
	ttyAuxMajor     = 5
	firstSlaveMajor = 136
	lastSlaveMajor  = 143
	// controllingMinor with ttyAuxMajor is /dev/tty, multiplexerMinor is /dev/ptmx.
	controllingMinor = 0
	multiplexerMinor = 2
	slavesPerMajor   = 256
)

// terminal is a terminal whose master may be outside of the tree.
type terminal struct {
	places
	key string
	// index is the number of a pseudo terminal, or -1.
	index int
	// major and minor are the device number, as in a process's stat.
	major, minor uint32
}

// isTerminal reports whether the device number is that of a console or a pseudo terminal.
func isTerminal(d *proc.Descriptor) bool {
	major := unix.Major(d.Stat.Rdev)
	return major == ttyMajor || major == ttyAuxMajor || major >= firstSlaveMajor && major <= lastSlaveMajor
}

func (s *inspection) addTerminal(m *member, d *proc.Descriptor) {
	major, minor := unix.Major(d.Stat.Rdev), unix.Minor(d.Stat.Rdev)
	if d.Terminal >= 0 {
		s.masters[d.Terminal] = true
		return
	}
	if major == ttyAuxMajor && (minor == multiplexerMinor || minor == controllingMinor) {
		s.checkControlling(m, d, minor)
		return
	}
	// CRIU's format.
	key := fmt.Sprintf("tty[%x:%x]", d.Stat.Rdev, d.Stat.Dev)
	t := s.ttys[key]
	if t == nil {
		t = &terminal{key: key, index: -1, major: major, minor: minor}
		if major >= firstSlaveMajor {
			t.index = int((major-firstSlaveMajor)*slavesPerMajor + minor)
		}
		s.ttys[key] = t
	}
	t.add(m.PID, d.Number)
}

// checkControlling checks /dev/tty. CRIU can resolve it only if the session leader is in the tree.
func (s *inspection) checkControlling(m *member, d *proc.Descriptor, minor uint32) {
	if minor == controllingMinor && s.byPID[m.Session] == nil {
		s.refuse(
			s.descriptorSubject(m, d.Number),
			"is /dev/tty, which stands for the terminal of a shell outside of the tree",
			"close it, or save the program while it does not read from the terminal",
		)
	}
}

// checkTerminals adds endpoints for terminals whose master is outside of the tree. One of them may
// be the terminal of a shell's job.
func (s *inspection) checkTerminals() {
	for _, key := range slices.Sorted(maps.Keys(s.ttys)) {
		t := s.ttys[key]
		if t.index >= 0 && s.masters[t.index] {
			continue
		}
		end := image.Endpoint{
			Kind:        "terminal",
			Key:         t.key,
			Descriptors: t.list(),
			Standard:    t.standard(s.members[0].PID),
		}
		end.Rows, end.Columns = s.windowSize(t)
		id := s.addEndpoint(end)
		if s.isJobTerminal(t) && s.JobTerminal == 0 {
			s.JobTerminal = id
			continue
		}
		s.External = append(s.External, t.key)
	}
}

// isJobTerminal reports whether t is the controlling terminal of processes whose session leader is
// outside of the tree, for example a shell.
func (s *inspection) isJobTerminal(t *terminal) bool {
	return slices.ContainsFunc(s.members, func(m *member) bool {
		return unix.Major(m.Terminal) == t.major && unix.Minor(m.Terminal) == t.minor && s.byPID[m.Session] == nil
	})
}

// windowSize returns the size of a terminal, or zeros.
func (s *inspection) windowSize(t *terminal) (rows, columns uint16) {
	file, err := proc.Borrow(t.pids[0], t.numbers[0])
	s.noteUnknown(err)
	if err != nil {
		return 0, 0
	}
	defer file.Close()
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return size.Row, size.Col
}
