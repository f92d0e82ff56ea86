package boottime

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// uptime asks the kernel for the same clock by another call. It counts whole seconds, rounded up.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		t.Fatal(err)
	}
	return time.Duration(info.Uptime) * time.Second
}

func TestNowIsTheUptime(t *testing.T) {
	before := uptime(t)
	now := Now()
	after := uptime(t)
	if now < before-time.Second || now > after {
		t.Errorf("now is %v, between uptimes of %v and %v", now, before, after)
	}
}

func newAlarm(t *testing.T) *Alarm {
	t.Helper()
	alarm, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { alarm.Close() })
	return alarm
}

// wait fails the test if the alarm does not ring, and returns when it rang.
func wait(t *testing.T, alarm *Alarm) time.Duration {
	t.Helper()
	if err := alarm.Wait(); err != nil {
		t.Fatal(err)
	}
	return Now()
}

func TestAlarmRings(t *testing.T) {
	alarm := newAlarm(t)
	for _, after := range []time.Duration{20 * time.Millisecond, 0, -time.Hour, -Now() * 2} {
		at := Now() + after
		if err := alarm.Set(at); err != nil {
			t.Fatal(err)
		}
		if rang := wait(t, alarm); rang < at {
			t.Errorf("the alarm for %v rang at %v", at, rang)
		}
	}
}

// TestAlarmIsSetAgain: a waiting goroutine follows the new time, whether it is later or earlier.
func TestAlarmIsSetAgain(t *testing.T) {
	for _, first := range []time.Duration{10 * time.Millisecond, time.Hour} {
		alarm := newAlarm(t)
		second := Now() + 100*time.Millisecond
		if err := errors.Join(alarm.Set(Now()+first), alarm.Set(second)); err != nil {
			t.Fatal(err)
		}
		if rang := wait(t, alarm); rang < second {
			t.Errorf("first set to %v: rang at %v, before %v", first, rang, second)
		}
	}
	alarm := newAlarm(t)
	rang := make(chan error, 1)
	go func() { rang <- alarm.Wait() }()
	if err := errors.Join(alarm.Set(Now()+time.Hour), alarm.Set(Now())); err != nil {
		t.Fatal(err)
	}
	if err := <-rang; err != nil {
		t.Error(err)
	}
}

func TestAlarmIsClosed(t *testing.T) {
	alarm := newAlarm(t)
	ended := make(chan error, 1)
	go func() { ended <- alarm.Wait() }()
	if err := errors.Join(alarm.Set(Now()+time.Hour), alarm.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait of a closed alarm: %v", err)
	}
	if err := alarm.Set(Now()); err == nil {
		t.Error("a closed alarm was set")
	}
}
