package boottime

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm rings once at a time of the clock. If the machine is suspended then, the alarm rings as
// soon as the machine runs again; it does not wake the machine.
type Alarm struct {
	timer *os.File // a timerfd, which Go's poller watches
}

// NewAlarm returns an Alarm that is not set. It needs a file descriptor.
func NewAlarm() (*Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	return &Alarm{timer: os.NewFile(uintptr(fd), "timer")}, nil
}

// Set makes the alarm ring at a time, and no longer at the time that was set before. A time in the
// past rings at once.
func (a *Alarm) Set(at time.Duration) error {
	at = max(at, 1) // zero would disarm the timer
	raw, err := a.timer.SyscallConn()
	if err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	value := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}
	var failure error
	err = raw.Control(func(fd uintptr) {
		failure = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &value, nil)
	})
	if err = errors.Join(err, failure); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	return nil
}

// Wait waits until the alarm rings. The error is os.ErrClosed if the alarm is closed.
func (a *Alarm) Wait() error {
	var expirations [8]byte
	if _, err := a.timer.Read(expirations[:]); err != nil {
		return fmt.Errorf("wait for a timer: %w", err)
	}
	if binary.NativeEndian.Uint64(expirations[:]) == 0 {
		return errors.New("wait for a timer: it has not expired")
	}
	return nil
}

// Close ends the alarm, and Wait.
func (a *Alarm) Close() error { return a.timer.Close() }
