package images

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/cluster/api"
	"github.com/phos-gpu/phos/tests/harness"
)

// copyOrder returns the order for a generation of an attempt of a launch.
func copyOrder(launch string, attempt uint32, generation uint64) *api.CopyOrder {
	return &api.CopyOrder{Attempt: &api.Attempt{Launch: launch, Attempt: attempt}, Generation: generation}
}

// copies is a copier whose copies end when they are let.
type copies struct {
	*testing.T
	*Copier
	let chan error

	mu   sync.Mutex
	made []string // what was begun and told
}

func startCopier(t *testing.T) *copies {
	c := &copies{T: t, let: make(chan error)}
	name := func(o *api.CopyOrder) string {
		return o.GetAttempt().GetLaunch() + "#" + string('0'+rune(o.GetGeneration()))
	}
	note := func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.made = append(c.made, text)
	}
	c.Copier = NewCopier(func(ctx context.Context, o *api.CopyOrder) error {
		note("begin " + name(o))
		select {
		case err := <-c.let:
			return err
		case <-ctx.Done():
			note("given up " + name(o))
			return ctx.Err()
		}
	}, func(o *api.CopyOrder, err error) {
		if err != nil {
			note("failed " + name(o))
			return
		}
		note("copied " + name(o))
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Copier.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return c
}

// expect waits until exactly this was made.
func (c *copies) expect(want ...string) {
	c.Helper()
	harness.Eventually(c.T, "the copies are made", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.Equal(c.made, want)
	})
}

// TestCopier: images are copied one after the other. A later generation does not end the copy of an
// earlier one, and what is wanted no longer does.
func TestCopier(t *testing.T) {
	c := startCopier(t)
	c.Want([]*api.CopyOrder{copyOrder("a", 1, 1), copyOrder("b", 1, 1)})
	c.expect("begin a#1")
	c.Want([]*api.CopyOrder{copyOrder("a", 1, 2)})
	time.Sleep(20 * time.Millisecond)
	c.expect("begin a#1")
	c.let <- nil
	c.expect("begin a#1", "copied a#1", "begin a#2")
	c.Want(nil)
	c.expect("begin a#1", "copied a#1", "begin a#2", "given up a#2")
	c.Want([]*api.CopyOrder{copyOrder("b", 1, 1)})
	c.expect("begin a#1", "copied a#1", "begin a#2", "given up a#2", "begin b#1")
	c.Leave("b") // it waits for the end
	c.expect("begin a#1", "copied a#1", "begin a#2", "given up a#2", "begin b#1", "given up b#1")
}

// TestCopierFails: a copy that fails does not hold up others.
func TestCopierFails(t *testing.T) {
	c := startCopier(t)
	c.Want([]*api.CopyOrder{copyOrder("a", 1, 1), copyOrder("b", 1, 1)})
	c.expect("begin a#1")
	c.let <- errors.New("no room")
	c.expect("begin a#1", "failed a#1", "begin b#1")
	c.let <- nil
	c.expect("begin a#1", "failed a#1", "begin b#1", "copied b#1", "begin a#1")
	c.let <- nil
	c.expect("begin a#1", "failed a#1", "begin b#1", "copied b#1", "begin a#1", "copied a#1")
}
