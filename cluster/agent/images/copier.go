package images

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/phos-gpu/phos/cluster/api"
)

// Copier fetches the images that a node is to keep for others, one after the other.
type Copier struct {
	// Copy fetches an image. Tell tells the leader what has become of that.
	Copy func(context.Context, *api.CopyOrder) error
	Tell func(*api.CopyOrder, error)

	mu      sync.Mutex
	wanted  []*api.CopyOrder
	changed chan struct{} // has a value when wanted has changed
	running *copying      // nil: none
	failed  int           // how many in a row have failed
}

// copying is a copy that is being made.
type copying struct {
	order  *api.CopyOrder
	cancel context.CancelFunc
	ended  chan struct{}
}

// retryTime is how long a copy waits that has failed.
const retryTime = 30 * time.Second

// NewCopier returns a copier that has nothing to do.
func NewCopier(copyOne func(context.Context, *api.CopyOrder) error, tell func(*api.CopyOrder, error)) *Copier {
	return &Copier{Copy: copyOne, Tell: tell, changed: make(chan struct{}, 1)}
}

// Want makes these the only images that are wanted. One that is being copied is given up if no
// image of its attempt is wanted any longer. A later one of the attempt waits for it, and needs
// less then: otherwise no copy would be whole where images are taken faster than they are copied.
func (c *Copier) Want(orders []*api.CopyOrder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = orders
	ofAttempt := func(order *api.CopyOrder) bool {
		return proto.Equal(order.GetAttempt(), c.running.order.GetAttempt())
	}
	if c.running != nil && !slices.ContainsFunc(orders, ofAttempt) {
		c.running.cancel()
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// isWanted reports whether an order is one of those that are wanted. c.mu is held.
func (c *Copier) isWanted(order *api.CopyOrder) bool {
	for _, each := range c.wanted {
		if proto.Equal(each, order) {
			return true
		}
	}
	return false
}

// Leave gives up the copies of a launch, which is about to run here, and waits until nothing is
// written any longer.
func (c *Copier) Leave(launch string) {
	c.mu.Lock()
	var left []*api.CopyOrder
	for _, order := range c.wanted {
		if order.GetAttempt().GetLaunch() != launch {
			left = append(left, order)
		}
	}
	c.wanted = left
	var ended chan struct{}
	if c.running != nil && c.running.order.GetAttempt().GetLaunch() == launch {
		c.running.cancel()
		ended = c.running.ended
	}
	c.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Run copies until the context ends.
func (c *Copier) Run(ctx context.Context) {
	for ctx.Err() == nil {
		job, copyCtx := c.begin(ctx)
		if job == nil {
			select {
			case <-ctx.Done():
			case <-c.changed:
			}
			continue
		}
		if c.end(job, c.Copy(copyCtx, job.order)) {
			select {
			case <-ctx.Done():
			case <-c.changed:
			case <-time.After(retryTime):
			}
		}
	}
}

// begin begins with the first image that is wanted; nil: none is.
func (c *Copier) begin(ctx context.Context) (*copying, context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wanted) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	c.running = &copying{order: c.wanted[0], cancel: cancel, ended: make(chan struct{})}
	return c.running, ctx
}

// end takes a copy that was made off the list, or puts one that has failed at its end. It reports
// whether it is time to wait: all that are wanted have failed.
func (c *Copier) end(job *copying, err error) (wait bool) {
	job.cancel()
	c.mu.Lock()
	wanted := c.isWanted(job.order)
	for i, order := range c.wanted {
		if proto.Equal(order, job.order) {
			c.wanted = append(c.wanted[:i:i], c.wanted[i+1:]...)
			break
		}
	}
	c.failed++
	if err == nil || !wanted {
		c.failed = 0
	} else {
		c.wanted = append(c.wanted, job.order)
	}
	if wait = c.failed > 0 && c.failed >= len(c.wanted); wait {
		c.failed = 0
	}
	c.running = nil
	close(job.ended)
	c.mu.Unlock()
	if err == nil || wanted {
		c.Tell(job.order, err)
	}
	return wait
}
