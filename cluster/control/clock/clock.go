package clock

import (
	"time"

	"github.com/phos-gpu/phos/internal/linux/boottime"
)

// Clock has the times that the leader needs.
type Clock struct {
	// Began is when the cluster was created: time 0 of the scheduler.
	Began time.Time
	// base is the scheduler's time when this leader began, and start the boot time of that.
	base, start time.Duration
}

// New returns the clock of a leader that begins now, in a cluster that was created at a time.
func New(began time.Time) Clock {
	return Clock{Began: began, base: max(0, time.Since(began)), start: boottime.Now()}
}

// Now is the scheduler's time. It never goes backwards while one leader leads.
func (c Clock) Now() time.Duration { return c.base + boottime.Now() - c.start }

// After implements scheduler.Clock.
func (c Clock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Boot is the time since this machine was booted. Leases are measured by it.
func (c Clock) Boot() time.Duration { return boottime.Now() }

// Wall is the time for people.
func (c Clock) Wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Since converts a time of a record to the scheduler's time. If the clock of the leader that wrote
// it was ahead, it may be later than now, and counts as now.
func (c Clock) Since(at time.Time) time.Duration { return min(max(0, at.Sub(c.Began)), c.Now()) }
