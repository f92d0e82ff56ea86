package fdpass

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Files opens the file descriptors that arrived with a message: control is its ancillary data. All
// of them are closed on exec. Each file is named by its path, if the kernel knows one, so that
// errors about it can be read. The files opened so far are returned with an error, too.
func Files(control []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("control message: %w", err)
	}
	for i := range messages {
		if messages[i].Header.Level != unix.SOL_SOCKET || messages[i].Header.Type != unix.SCM_RIGHTS {
			continue
		}
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, fmt.Errorf("control message: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), nameOf(fd)))
		}
	}
	return files, nil
}

// nameOf returns the path by which the kernel knows an open file.
func nameOf(fd int) string {
	name, err := proc.PathOf(fd)
	if err != nil {
		return fmt.Sprintf("passed file %d", fd)
	}
	return name
}
