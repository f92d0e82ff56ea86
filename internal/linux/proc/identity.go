package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// ErrGone is returned when a process has ended, or its pid belongs to another one now.
var ErrGone = errors.New("process has ended")

// Unknown reports whether an error says nothing about the process, because this process lacks a
// file descriptor or memory. Such errors are transient; do not treat the process as ended.
func Unknown(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// Identity identifies a process until the next boot.
type Identity struct {
	PID int `json:"pid"`
	// StartTicks is the start time in clock ticks since boot.
	StartTicks uint64 `json:"start_ticks"`
}

// Of returns the identity of the process that has a pid now.
func Of(pid int) (Identity, error) {
	stat, err := ReadStat(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return Identity{}, fmt.Errorf("%w: pid %d: %w", ErrGone, pid, err)
	case err != nil: // says nothing about the process
		return Identity{}, fmt.Errorf("pid %d: %w", pid, err)
	}
	return stat.Identity, nil
}

// Check returns ErrGone unless the pid still names this process.
func (id Identity) Check() error {
	now, err := Of(id.PID)
	if err != nil {
		return err
	}
	if now != id {
		return fmt.Errorf("%w: pid %d is another process now", ErrGone, id.PID)
	}
	return nil
}

// Gone reports whether the process is known to have ended. A zombie does not count as gone.
func (id Identity) Gone() bool { return errors.Is(id.Check(), ErrGone) }

// Executable returns the path of the program file, without the suffix of a deleted file.
func (id Identity) Executable() (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id.PID))
	return strings.TrimSuffix(path, " (deleted)"), err
}

// Name returns the kernel's name of the process: at most 15 bytes. The process chooses it; control
// characters are replaced.
func (id Identity) Name() string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id.PID))
	if err != nil {
		return ""
	}
	return oneLine(string(bytes.TrimSpace(name)))
}

// Command returns the command line, truncated to limit bytes. Control characters are replaced.
func (id Identity) Command(limit int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
	if err != nil || len(line) == 0 {
		return id.Name()
	}
	line = bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '})
	if len(line) > limit {
		line = line[:limit]
	}
	return oneLine(string(line))
}

// oneLine replaces what is not text, and what would begin a line or control a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Arguments returns the command line as words; nil if it is not known. A program may have replaced
// it.
func (id Identity) Arguments() []string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
	if err != nil || len(line) == 0 || id.Check() != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// Environment returns the environment with which the process was started.
func (id Identity) Environment() (map[string]string, error) {
	block, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", id.PID))
	if err != nil {
		return nil, err
	}
	variables := make(map[string]string)
	for entry := range strings.SplitSeq(string(block), "\x00") {
		if name, value, found := strings.Cut(entry, "="); found {
			variables[name] = value
		}
	}
	return variables, id.Check()
}
