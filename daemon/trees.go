package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/daemon/rpc"
)

// tree is a process tree that was restored, and its keeper.
type tree struct {
	restored ckpt.Restored
	// control is where the keeper is found; its name is the tree's.
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

// newKeeper is a place for the socket of the keeper of a user's tree. The next phosd knows by the name whose it is.
func (d *Daemon) newKeeper(uid uint32) string {
	return d.dir.Keeper(fmt.Sprintf("%d.%d-%s", uid, d.keepers.Add(1), strconv.FormatInt(time.Now().UnixNano(), 36)))
}

// trees are those that were restored, by their names, and those that have ended as long as somebody may come to ask how.
type trees struct {
	mu     sync.Mutex
	byName map[string]*tree
}

// remembered is how long the end of a tree is known: a follower may have to find the next phosd first.
const remembered = 10 * time.Minute

func (all *trees) add(t *tree) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.byName == nil {
		all.byName = make(map[string]*tree)
	}
	all.byName[t.name()] = t
}

func (all *trees) remove(t *tree) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byName, t.name())
}

// find finds a tree for somebody who may know of it.
func (all *trees) find(name string, actor rpc.Actor) (*tree, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	t := all.byName[name]
	if t == nil || !actor.May(t.owner()) {
		return nil, fmt.Errorf("%w: nobody knows of the restored tree any more", rpc.ErrNoProgram)
	}
	return t, nil
}

func (t *tree) name() string { return filepath.Base(t.control) }

// owner is whose tree it is; root's where the name does not say so.
func (t *tree) owner() (uid uint32) {
	_, name, _ := strings.Cut(t.name(), "-")
	if n, err := fmt.Sscanf(name, "%d.", &uid); n != 1 || err != nil {
		return 0
	}
	return uid
}

// watchTree waits for the end of a tree, so that its keeper is free to go.
func (d *Daemon) watchTree(restored ckpt.Restored, control string) *tree {
	t := &tree{restored: restored, control: control, ended: make(chan struct{})}
	d.trees.add(t)
	d.watchers.Go(func() {
		t.status, t.failed = restored.Wait(d.stopping)
		close(t.ended)
		time.AfterFunc(remembered, func() { d.trees.remove(t) })
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
