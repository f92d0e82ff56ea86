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

// terminal is one whose other side may be outside.
type terminal struct {
	places
	key string
	// index is the number of a pseudo terminal, else -1.
	index int
	// device is as in a process's state.
	major, minor uint32
}

func isTerminal(d *proc.Descriptor) bool {
	major := unix.Major(d.Stat.Rdev)
	return major == ttyMajor || major == ttyAuxMajor || major >= firstSlaveMajor && major <= lastSlaveMajor
}

func (s *survey) addTerminal(m *member, d *proc.Descriptor) {
	major, minor := unix.Major(d.Stat.Rdev), unix.Minor(d.Stat.Rdev)
	if d.Terminal >= 0 {
		s.masters[d.Terminal] = true
		return
	}
	if major == ttyAuxMajor && (minor == multiplexerMinor || minor == controllingMinor) {
		s.judgeControlling(m, d, minor)
		return
	}
	// The format is CRIU's.
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

// judgeControlling judges /dev/tty: whichever terminal it stands for, CRIU finds it only with a
// leader in the tree.
func (s *survey) judgeControlling(m *member, d *proc.Descriptor, minor uint32) {
	if minor == controllingMinor && s.byPID[m.Session] == nil {
		s.refuse(
			s.at(m, d.Number),
			"is /dev/tty, which stands for the terminal of a shell outside of the tree",
			"close it, or save the program when it does not ask at the terminal",
		)
	}
}

// judgeTerminals sorts terminals into those that the tree has both sides of, the one of a shell's
// job, and others.
func (s *survey) judgeTerminals() {
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
		end.Rows, end.Columns = s.window(t)
		id := s.endpoint(end)
		if s.ofJob(t) && s.JobTerminal == 0 {
			s.JobTerminal = id
			continue
		}
		s.External = append(s.External, t.key)
	}
}

// ofJob says that a terminal is the controlling one of processes whose session leader is outside:
// that of a shell.
func (s *survey) ofJob(t *terminal) bool {
	return slices.ContainsFunc(s.members, func(m *member) bool {
		return unix.Major(m.Terminal) == t.major && unix.Minor(m.Terminal) == t.minor && s.byPID[m.Session] == nil
	})
}

// window is the size of a terminal.
func (s *survey) window(t *terminal) (rows, columns uint16) {
	file, err := proc.Borrow(t.pids[0], t.numbers[0])
	s.look(err)
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
