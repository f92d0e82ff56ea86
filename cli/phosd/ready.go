package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ready is the pipe on which pos_cli waits for one line.
type ready struct{ pipe *os.File }

// openReady opens the pipe of --ready-fd. Without one, say has no effect.
func openReady(fd int) *ready {
	if fd <= 0 {
		return &ready{}
	}
	// Workers must not inherit it: pos_cli would wait for them.
	unix.CloseOnExec(fd)
	return &ready{pipe: os.NewFile(uintptr(fd), "ready")}
}

// say writes the line and closes the pipe. Later calls have no effect.
func (r *ready) say(format string, values ...any) {
	if r.pipe == nil {
		return
	}
	line := strings.ReplaceAll(fmt.Sprintf(format, values...), "\n", "; ")
	// pos_cli may have ended.
	_, _ = fmt.Fprintln(r.pipe, line)
	r.close()
}

func (r *ready) close() {
	if r.pipe != nil {
		_ = r.pipe.Close()
		r.pipe = nil
	}
}
