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

// Open opens the file that log_path names, relative to the program's working and root directory.
// The worker has only the program's rights, so the program could have opened the file too.
func Open(program proc.Identity, path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	base := proc.Path(program.PID, "cwd")
	if filepath.IsAbs(path) {
		base = proc.Root(program.PID)
	}
	// O_NONBLOCK: the path may be a pipe without a reader.
	file, err := os.OpenFile(base+"/"+path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // its path is below /proc, not the one in pos.yaml
		}
		return nil, fmt.Errorf("%s: log_path: open %s: %w", jobfile.Name, path, err)
	}
	return file, nil
}
