package joblog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/worker/jobfile"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Open opens what log_path names: relative to the program's working directory, seen through its
// root directory. The worker has the program's rights and no others, so this is what the program
// could have opened.
func Open(program proc.Identity, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	base := fmt.Sprintf("/proc/%d/cwd", program.PID)
	if filepath.IsAbs(path) {
		base = fmt.Sprintf("/proc/%d/root", program.PID)
	}
	// Never waits: the path may be a pipe that nobody reads.
	file, err := os.OpenFile(base+"/"+path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // its path is how this process reaches the file, not the one that the user wrote
		}
		return nil, fmt.Errorf("%s: log_path: open %s: %w", jobfile.Name, path, err)
	}
	return file, nil
}
