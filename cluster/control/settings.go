package control

import (
	"fmt"
	"time"

	"github.com/phos-gpu/phos/cluster/metrics"
	"github.com/phos-gpu/phos/scheduler"
)

// Settings are what the controllers of a cluster are configured with.
type Settings struct {
	Times Times
	// Policies returns the scheduler's policies, for one engine. It is called once for each queue.
	Policies func() (scheduler.Policies, error)
	// Placement is the name of the placement among the policies, and Scheduler says in words which
	// policies these are.
	Placement, Scheduler string
	// Peers is on how many nodes an image is kept besides the one that has taken it.
	Peers int
	// Ports is the range of TCP ports that launches get on each node.
	Ports PortRange
	// KeepEnded is how long a launch that has ended is kept, and KeepMost how many of those are: the
	// oldest are forgotten first. A tenth more may be there for a while.
	KeepEnded time.Duration
	KeepMost  int
	// Forgotten is called with the id of a launch that is kept no longer; nil: nothing is.
	Forgotten func(launchID string)
	// Version is that of this program. Page is the address for browsers; empty: there is none.
	Version, Page string
	// Numbers counts what the scheduler decides; nil: nothing does.
	Numbers Numbers
	// Room returns an error while the disk has no room for new launches; nil: there always is. A
	// leader without room gives way to Others: controllers that may have some.
	Room   func() error
	Others bool
	// Decisions is the directory with the log of what the scheduler of GPUs decides; empty: none.
	Decisions string
}

// Times that a cluster agrees on.
type Times struct {
	// Lease is how long a node is taken for reachable without a renewal.
	Lease time.Duration
	// FenceAfter is how long after its last renewal a node stops what it runs. It must exceed the
	// outages of the controllers that launches shall not notice.
	FenceAfter time.Duration
	// Margin is how long after that the leader waits before it starts the same elsewhere.
	Margin time.Duration
	// Grace is how long a process has between SIGTERM and SIGKILL.
	Grace time.Duration
}

// DefaultTimes are those of a cluster that says nothing else.
var DefaultTimes = Times{
	Lease: 5 * time.Second, FenceAfter: time.Minute, Margin: 5 * time.Second, Grace: 30 * time.Second,
}

// Numbers counts what the scheduler decides.
type Numbers interface {
	// Attempted counts a decision, by what became of it.
	Attempted(metrics.Result)
	// Waited counts a launch that was queued for a time and then placed.
	Waited(queued time.Duration)
}

// uncounted are Numbers that are not kept.
type uncounted struct{}

func (uncounted) Attempted(metrics.Result) {}

func (uncounted) Waited(time.Duration) {}

// PortRange is a range of ports, with both ends.
type PortRange struct{ From, To int }

// DefaultKeepMost is KeepMost if it is not set.
const DefaultKeepMost = 50_000

// withDefaults fills in what was left out.
func (s Settings) withDefaults() Settings {
	for _, each := range []struct {
		value *time.Duration
		usual time.Duration
	}{
		{&s.Times.Lease, DefaultTimes.Lease},
		{&s.Times.FenceAfter, DefaultTimes.FenceAfter},
		{&s.Times.Margin, DefaultTimes.Margin},
		{&s.Times.Grace, DefaultTimes.Grace},
		{&s.KeepEnded, 7 * 24 * time.Hour},
	} {
		if *each.value == 0 {
			*each.value = each.usual
		}
	}
	if s.KeepMost == 0 {
		s.KeepMost = DefaultKeepMost
	}
	if s.Forgotten == nil {
		s.Forgotten = func(string) {}
	}
	if s.Numbers == nil {
		s.Numbers = uncounted{}
	}
	if s.Ports == (PortRange{}) {
		s.Ports = PortRange{20000, 29999}
	}
	return s
}

// Check returns an error for settings that cannot work together.
func (s Settings) Check() error {
	s = s.withDefaults()
	switch {
	case s.Times.Lease < time.Second:
		return fmt.Errorf("lease is %v; it must be at least 1s", s.Times.Lease)
	case s.Times.FenceAfter < 2*s.Times.Lease:
		return fmt.Errorf("fence_after is %v; it must be at least twice the lease of %v", s.Times.FenceAfter, s.Times.Lease)
	case s.Ports.From < 1024 || s.Ports.To > 65535 || s.Ports.To-s.Ports.From < 100:
		return fmt.Errorf("ports %d-%d: want at least 100 ports between 1024 and 65535", s.Ports.From, s.Ports.To)
	}
	return nil
}
