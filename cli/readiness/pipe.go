// Package readiness tells those that have started a daemon that it serves: pos_cli, by a pipe, and
// systemd, by sd_notify. Tested by tests/script.
package readiness

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Pipe is the pipe on which pos_cli waits for one line.
type Pipe struct{ pipe *os.File }

// OpenPipe opens the pipe of --ready-fd. Without one, Say has no effect.
func OpenPipe(fd int) *Pipe {
	if fd <= 0 {
		return &Pipe{}
	}
	// Workers must not inherit it: pos_cli would wait for them.
	unix.CloseOnExec(fd)
	return &Pipe{pipe: os.NewFile(uintptr(fd), "ready")}
}

// Say writes the line and closes the pipe. Later calls have no effect.
func (r *Pipe) Say(format string, values ...any) {
	if r.pipe == nil {
		return
	}
	line := strings.ReplaceAll(fmt.Sprintf(format, values...), "\n", "; ")
	// pos_cli may have ended.
	_, _ = fmt.Fprintln(r.pipe, line)
	r.Close()
}

// Close closes the pipe without a line.
func (r *Pipe) Close() {
	if r.pipe != nil {
		_ = r.pipe.Close()
		r.pipe = nil
	}
}

// Open reports whether the line has yet to be written.
func (r *Pipe) Open() bool { return r.pipe != nil }
