package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/control/mirror"
	"github.com/phos-gpu/phos/cluster/control/recent"
	"github.com/phos-gpu/phos/cluster/metrics"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
	"github.com/phos-gpu/phos/scheduler"
)

// Controller is a process that may lead. While another one leads it refuses requests, and names
// that one.
type Controller struct {
	store    store.Store
	settings Settings
	address  string
	log      *slog.Logger
	// other is the address of the controller that leads; empty: none does.
	other *recent.Answer[string]

	mu     sync.Mutex
	leader *Leader // nil while another controller leads
}

// NewController returns a controller that others reach at an address.
func NewController(objects store.Store, settings Settings, address string, log *slog.Logger) *Controller {
	return &Controller{
		store: objects, settings: settings, address: address, log: log,
		other: recent.New(leaderGood, func(ctx context.Context) (string, error) {
			name, _, err := objects.Leader(ctx)
			if errors.Is(err, store.ErrNotFound) {
				return "", nil
			}
			return name, err
		}),
	}
}

// leaderGood is how long a controller that does not lead remembers which one does. One that is out
// of date names the next.
const leaderGood = 100 * time.Millisecond

// Address returns where others reach this controller.
func (c *Controller) Address() string { return c.address }

// Settings returns how this controller is configured.
func (c *Controller) Settings() Settings { return c.settings }

// NotLeaderError is returned by a controller that does not lead.
type NotLeaderError struct {
	// Leader is the address of the one that does; empty: none does now.
	Leader string
}

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "no controller leads now: try again in some seconds"
	}
	return "the controller at " + e.Leader + " leads"
}

// leadAgainAfter is the pause after a leadership that has failed.
const leadAgainAfter = 200 * time.Millisecond

// Run leads whenever it is this controller's turn, until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.lead(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("leadership ended", "error", err)
			_ = ticks.Pause(ctx, leadAgainAfter) // the loop sees that the context has ended
		}
	}
	return ctx.Err()
}

// errFullDisk ends the leadership of a controller whose disk has become full.
var errFullDisk = errors.New("the disk is full, and another controller may have room")

// crowded reports whether another controller had better lead.
func (c *Controller) crowded() bool {
	return c.settings.Others && c.settings.Room != nil && c.settings.Room() != nil
}

// giveWayTime is how long a controller without room leaves a leadership to others.
const giveWayTime = 5 * time.Second

// lead waits for its turn, and leads until that ends. One without room leads if no other wants to.
func (c *Controller) lead(ctx context.Context) error {
	late := c.crowded()
	if late {
		if err := ticks.Pause(ctx, giveWayTime); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !late {
		go c.watchRoom(ctx, stop)
	}
	followed := mirror.Follow(ctx, c.store, c.log)
	defer followed.Stop()
	leadership, err := c.store.Campaign(ctx, c.address)
	if err != nil {
		return fmt.Errorf("campaign: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer resign(leadership)
	c.log.Info("leading", "epoch", leadership.Epoch())
	leader, err := NewLeader(ctx, Beginning{c.store, leadership, followed}, c.settings, c.log)
	followed.Stop()
	if err != nil {
		return err
	}
	c.set(leader)
	defer c.set(nil)
	return leader.Run(ctx)
}

// watchRoom ends a leadership, or the wait for it, when the disk becomes full.
func (c *Controller) watchRoom(ctx context.Context, stop context.CancelCauseFunc) {
	for range ticks.Every(ctx, tick) {
		if c.crowded() {
			stop(errFullDisk)
			return
		}
	}
}

// resign gives a leadership back, so that another controller can lead at once.
func resign(leadership store.Leadership) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = leadership.Resign(ctx) // it ends by itself otherwise
}

// set makes a leader the one that requests go to.
func (c *Controller) set(l *Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = l
}

// Leading returns the leader of this process, or NotLeaderError.
func (c *Controller) Leading(ctx context.Context) (*Leader, error) {
	c.mu.Lock()
	leader := c.leader
	c.mu.Unlock()
	if leader != nil {
		return leader, nil
	}
	name, err := c.other.Get(ctx)
	if err != nil {
		return nil, err
	}
	if name == c.address {
		name = "" // it has just won, and is not ready yet
	}
	return nil, &NotLeaderError{name}
}

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
	// Networks has the addresses of launches with networks of their own.
	Networks netip.Prefix
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

// DefaultNetworks is Networks if it is not set.
var DefaultNetworks = netip.MustParsePrefix("10.213.0.0/16")

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
	if !s.Networks.IsValid() {
		s.Networks = DefaultNetworks
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
	case !s.Networks.Addr().Is4() || s.Networks.Bits() < 8 || s.Networks.Bits() > 22 || s.Networks != s.Networks.Masked():
		return fmt.Errorf("networks %s: want a range of IPv4 addresses from /8 to /22, as %s", s.Networks, DefaultNetworks)
	}
	return nil
}
