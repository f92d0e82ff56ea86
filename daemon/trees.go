package daemon

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/process"
)

// tree is a process tree that was restored, and its keeper.
type tree struct {
	restored ckpt.Restored
	// control is where the keeper is found.
	control string
	// ended is closed when the root has ended; status and failed may be read then.
	ended  chan struct{}
	status int
	failed error
}

// Between two looks whether a keeper is still needed, after the root of its tree has ended: most end with it.
const (
	firstKeeperTime = 5 * time.Millisecond
	keeperTime      = time.Second
)

// newKeeper is a place for the socket of a tree's keeper.
func (d *Daemon) newKeeper() string {
	return d.dir.Keeper(strconv.FormatUint(d.keepers.Add(1), 10) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36))
}

// watchTree waits for the end of a tree, so that its keeper is free to go.
func (d *Daemon) watchTree(restored ckpt.Restored, control string) *tree {
	t := &tree{restored: restored, control: control, ended: make(chan struct{})}
	d.watchers.Go(func() {
		t.status, t.failed = restored.Wait(d.stopping)
		close(t.ended)
		d.forgetTree(t)
	})
	return t
}

// forgetTree removes a keeper's socket once the keeper is gone: other processes of the tree may live longer than the root.
func (d *Daemon) forgetTree(t *tree) {
	for wait := firstKeeperTime; ; wait = min(2*wait, keeperTime) {
		if _, err := d.options.CPU.Adopt(d.stopping, t.control); errors.Is(err, process.ErrGone) {
			return // with it the socket has been removed
		}
		select {
		case <-time.After(wait):
		case <-d.stopping.Done():
			return
		}
	}
}

// wait is the root's exit status.
func (t *tree) wait(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
		return t.status, t.failed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
