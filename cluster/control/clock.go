package control

import (
	"time"

	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// clock has the times that the leader needs.
type clock struct {
	// began is when the cluster was created: time 0 of the scheduler.
	began time.Time
	// base is the scheduler's time when this leader began, and start the boot time of that.
	base, start time.Duration
}

func newClock(began time.Time) clock {
	return clock{began: began, base: max(0, time.Since(began)), start: boottime.Now()}
}

// Now is the scheduler's time. It never goes backwards while one leader leads.
func (c clock) Now() time.Duration { return c.base + boottime.Now() - c.start }

// After implements scheduler.Clock.
func (c clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// boot is the time since this machine was booted. Leases are measured by it.
func (c clock) boot() time.Duration { return boottime.Now() }

// wall is the time for people.
func (c clock) wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// since converts a time of a record to the scheduler's time.
func (c clock) since(at time.Time) time.Duration { return max(0, at.Sub(c.began)) }
