package boottime

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Timer is a timer of the kernel's. A machine that wakes finds it expired; a timer of Go, which
// does not count sleep, would still wait.
type Timer struct{ fd int }

// NewTimer returns a Timer that is not set.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	return &Timer{fd}, nil
}

// Set sets when the Timer expires next, also while another goroutine waits for it. It expires at
// once if that has passed.
func (t *Timer) Set(at time.Duration) error {
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(at, 1)))} // 0 would stop it
	if err := unix.TimerfdSettime(t.fd, unix.TFD_TIMER_ABSTIME, &value, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}

// Wait waits until the Timer has expired. It blocks a thread, which the kernel wakes: the runtime
// has no part in it.
func (t *Timer) Wait() error {
	var count [8]byte
	for {
		_, err := unix.Read(t.fd, count[:])
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for timer: %w", err)
		}
	}
}

// Close releases the Timer. No goroutine may wait for it.
func (t *Timer) Close() error { return unix.Close(t.fd) }
