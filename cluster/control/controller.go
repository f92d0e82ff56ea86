package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/control/mirror"
	"github.com/phos-gpu/phos/cluster/control/recent"
	"github.com/phos-gpu/phos/cluster/store"
	"github.com/phos-gpu/phos/internal/ticks"
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
