package linelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Follow delivers entries until the log has ended, deliver returns an error, or ctx ends. What was
// written before ctx ended is delivered.
func (r *Reader) Follow(ctx context.Context, deliver func(Entry) error) error {
	changes, err := watch(ctx, r.dir)
	if err != nil {
		return fmt.Errorf("follow log: %w", err)
	}
	defer changes.close()
	for last := false; ; {
		err := r.readAll(deliver)
		if err != nil || last || r.ended {
			return err
		}
		last = !changes.wait(ctx)
	}
}

// readAll delivers what is there.
func (r *Reader) readAll(deliver func(Entry) error) error {
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := deliver(e); err != nil {
			return err
		}
	}
}

// ReadBetween delivers the entries of a time: from is included, to is not. As clocks go back, it
// looks at all entries.
func ReadBetween(dir string, from, to time.Time, deliver func(Entry) error) error {
	r := Open(dir, Position{})
	defer r.Close()
	return r.readAll(func(e Entry) error {
		if e.Time.Before(from) || !e.Time.Before(to) {
			return nil
		}
		return deliver(e)
	})
}

// changes waits for changes of a directory.
type changes struct {
	inotify *os.File
	stop    func() bool
}

// watch begins to watch a directory. Where the kernel has no instance of inotify left, the changes
// are only guessed.
func watch(ctx context.Context, dir string) (*changes, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return &changes{}, nil
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_DELETE); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s: %w", dir, err), file.Close())
	}
	stop := context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(0, 1)) })
	return &changes{file, stop}, nil
}

// guessTime is the time between two looks at a log that cannot be watched.
const guessTime = 500 * time.Millisecond

// wait waits for a change. It returns false if ctx has ended.
func (c *changes) wait(ctx context.Context) bool {
	if c.inotify != nil {
		var events [4096]byte
		_, err := c.inotify.Read(events[:])
		return err == nil
	}
	timer := time.NewTimer(guessTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (c *changes) close() {
	if c.inotify != nil {
		c.stop()
		_ = c.inotify.Close()
	}
}
