package clock

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// TestNow: the scheduler's time begins with the cluster, and goes on as the machine's boot time.
func TestNow(t *testing.T) {
	for _, age := range []time.Duration{0, time.Second, 400 * 24 * time.Hour} {
		began := time.Now().Add(-age).Round(0) // as it is read from a record
		early, bootEarly := time.Since(began), boottime.Now()
		c := New(began)
		late, bootLate := time.Since(began), boottime.Now()
		for range 3 {
			least := early + boottime.Now() - bootLate
			now := c.Now()
			if most := late + boottime.Now() - bootEarly; now < least || now > most {
				t.Errorf("in a cluster of age %v it is %v, want %v to %v", age, now, least, most)
			}
		}
	}
}

// TestClockOfOther: the controller that has made the cluster, or written a record, may have had a
// clock that was ahead. Time 0 is now then, and nothing is later than now.
func TestClockOfOther(t *testing.T) {
	before := boottime.Now()
	c := New(time.Now().Add(time.Hour).Round(0))
	if now := c.Now(); now < 0 || now > boottime.Now()-before {
		t.Errorf("a cluster of the future begins at %v", now)
	}
	began := time.Now().Add(-time.Hour).Round(0)
	c = New(began)
	for at, want := range map[time.Time]time.Duration{
		began.Add(-time.Hour):             0,
		began:                             0,
		began.Add(time.Nanosecond):        1,
		began.Add(20 * time.Minute):       20 * time.Minute,
		began.Add(59 * time.Minute).UTC(): 59 * time.Minute,
	} {
		if got := c.Since(at); got != want {
			t.Errorf("%v of a cluster that began at %v is %v, want %v", at, began, got, want)
		}
	}
	least := c.Now()
	if got := c.Since(time.Now().Add(time.Hour)); got < least || got > c.Now() {
		t.Errorf("a record of the future is of %v; it was %v before and is %v now", got, least, c.Now())
	}
}

// TestOrder: none of the times goes backwards, and leases have the clock of the machine.
func TestOrder(t *testing.T) {
	c := New(time.Now().Add(-time.Hour))
	last, lastBoot := c.Now(), boottime.Now()
	for range 1000 {
		now, boot := c.Now(), c.Boot()
		if now < last || boot < lastBoot || boot > boottime.Now() {
			t.Fatalf("%v after %v; boot time %v after %v, and it is %v", now, last, boot, lastBoot, boottime.Now())
		}
		last, lastBoot = now, boot
	}
}

// TestWall: people and records get milliseconds in UTC, so that a time is the same after it was
// written and read.
func TestWall(t *testing.T) {
	before := time.Now().Truncate(time.Millisecond)
	wall := New(before).Wall()
	if wall.Before(before) || wall.After(time.Now()) || wall.Location() != time.UTC {
		t.Errorf("it is %v, between %v and %v", wall, before, time.Now())
	}
	text, err := wall.MarshalText()
	var read time.Time
	if err == nil {
		err = read.UnmarshalText(text)
	}
	if err != nil || read != wall || wall.Nanosecond()%int(time.Millisecond) != 0 {
		t.Errorf("%v is read as %v, %v", wall, read, err)
	}
}
