package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long removing a cgroup may take. It waits only for the kernel, never for a
// program.
const Patience = 10 * time.Second

// Processes lists the processes in a cgroup.
func Processes(directory string) ([]int, error) {
	text, err := os.ReadFile(filepath.Join(directory, "cgroup.procs"))
	if err != nil {
		return nil, err
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", directory, err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Put moves a process, with all its threads, into a cgroup.
func Put(directory string, pid int) error {
	return Write(directory, "cgroup.procs", strconv.Itoa(pid))
}

// Write changes a setting of a cgroup.
func Write(directory, name, text string) error {
	// os.WriteFile would create a missing file.
	file, err := os.OpenFile(filepath.Join(directory, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// Removed reports whether err means that a cgroup was removed. systemd removes those of a unit,
// with all below, as soon as they are empty. Reading an open file of a removed cgroup returns
// ENODEV.
func Removed(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }

// Event reads one of the flags in cgroup.events.
func Event(file *os.File, name string) (bool, error) {
	var text [4096]byte
	n, err := file.ReadAt(text[:], 0)
	if n == 0 && err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text[:n])) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+" "); found {
			return value == "1", nil
		}
	}
	return false, fmt.Errorf("%s: no entry %q", file.Name(), name)
}

// Dissolve calls out to move each process of a cgroup elsewhere, including new ones, and removes
// the cgroup.
func Dissolve(directory string, out func(pid int) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		pids, err := Processes(directory)
		if Removed(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, pid := range pids {
			// An exiting process cannot be moved and leaves by itself.
			if err := out(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		err = unix.Rmdir(directory)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || ctx.Err() != nil {
			return fmt.Errorf("remove %s: %w", directory, err)
		}
		// Exiting processes still count.
		pause(ctx)
	}
}

// pause waits for a millisecond, or until ctx is done.
func pause(ctx context.Context) {
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
