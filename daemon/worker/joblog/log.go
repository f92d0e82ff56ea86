package joblog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/worker/jobfile"
	"github.com/phos-gpu/phos/internal/linux/proc"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// Open opens the file that log_path names, relative to the program's working directory, below its
// root directory. The worker has only the program's rights, so the program could have opened the
// file too.
func Open(program proc.Identity, name string) (*os.File, error) {
	if name == "" {
		return nil, nil
	}
	file, err := open(program, name)
	if err != nil {
		var at *fs.PathError
		if errors.As(err, &at) {
			err = at.Err // the program knows the path as it is in pos.yaml
		}
		return nil, fmt.Errorf("%s: log_path: open %s: %w", jobfile.Name, name, err)
	}
	return file, nil
}

func open(program proc.Identity, name string) (*os.File, error) {
	if !path.IsAbs(name) {
		from, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", program.PID))
		if err != nil {
			return nil, err
		}
		name = path.Join(from, name)
	}
	root, err := rootdir.Of(program)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// O_NONBLOCK: the path may be a pipe without a reader.
	return root.Open(name, unix.OpenHow{
		Flags: unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOCTTY, Mode: 0o644,
	})
}
