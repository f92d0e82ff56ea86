package restored

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// Between two looks whether a keeper is still needed, after the root of its tree has ended: most
// end with it.
const (
	firstKeeperTime = 5 * time.Millisecond
	keeperTime      = time.Second
)

// remembered is how long the end of a tree is known: a follower may have to find the next phosd
// first.
const remembered = 10 * time.Minute

// Keepers finds the tree of the keeper at a path; process.ErrGone when it is gone. ckpt.CPU is one.
type Keepers interface {
	Adopt(ctx context.Context, control string) (ckpt.Restored, error)
}

// Options are what Trees need of phosd.
type Options struct {
	// Life ends when phosd does; the trees live on.
	Life    context.Context //nolint:containedctx // phosd's own life, not a request's
	Keepers Keepers
	// Path is where the keeper of a name has its socket.
	Path func(name string) string
}

// Trees are those that were restored, by their names.
type Trees struct {
	options  Options
	made     atomic.Uint64
	watching sync.WaitGroup

	mu     sync.Mutex // guards byName
	byName map[string]*Tree
}

// New knows no tree yet.
func New(options Options) *Trees {
	return &Trees{options: options, byName: make(map[string]*Tree)}
}

// NewKeeper is a place for the socket of the keeper of a user's tree. The next phosd knows by the
// name whose it is.
func (all *Trees) NewKeeper(uid uint32) string {
	return all.options.Path(fmt.Sprintf("%d.%d-%s", uid, all.made.Add(1), strconv.FormatInt(time.Now().UnixNano(), 36)))
}

// Find finds a tree for somebody who may know of it.
func (all *Trees) Find(name string, actor api.Actor) (*Tree, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	t := all.byName[name]
	if t == nil || !actor.May(t.owner()) {
		return nil, fmt.Errorf("%w: nobody knows of the restored tree any more", api.ErrNoProgram)
	}
	return t, nil
}

// Watch waits for the end of a tree, so that its keeper is free to go.
func (all *Trees) Watch(restored ckpt.Restored, control string) *Tree {
	t := &Tree{restored: restored, control: control, ended: make(chan struct{})}
	all.add(t)
	all.watching.Go(func() {
		t.status, t.failed = all.awaitRoot(restored)
		close(t.ended)
		time.AfterFunc(remembered, func() { all.remove(t) })
		all.awaitKeeper(t)
	})
	return t
}

// awaitRoot waits for the end of a root, and asks its keeper again as long as this process has
// nothing to ask by.
func (all *Trees) awaitRoot(restored ckpt.Restored) (status int, err error) {
	life := all.options.Life
	for {
		if status, err = restored.Wait(life); !proc.Unknown(err) {
			return status, err
		}
		select {
		case <-time.After(keeperTime):
		case <-life.Done():
			return 0, err
		}
	}
}

// Adopt watches the tree of a keeper that a former phosd has left.
func (all *Trees) Adopt(ctx context.Context, control string) (processes int, err error) {
	restored, err := all.options.Keepers.Adopt(ctx, control)
	if err != nil {
		return 0, err
	}
	all.Watch(restored, control)
	return len(restored.Processes()), nil
}

// Wait returns when nothing is watched any more, which is soon after phosd's life has ended.
func (all *Trees) Wait() { all.watching.Wait() }

func (all *Trees) add(t *Tree) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byName[t.Name()] = t
}

func (all *Trees) remove(t *Tree) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byName, t.Name())
}

// awaitKeeper returns once a keeper is gone, which removes its socket: other processes of the tree
// may live longer than the root.
func (all *Trees) awaitKeeper(t *Tree) {
	life := all.options.Life
	for wait := firstKeeperTime; ; wait = min(2*wait, keeperTime) {
		if _, err := all.options.Keepers.Adopt(life, t.control); errors.Is(err, proc.ErrGone) {
			return
		}
		select {
		case <-time.After(wait):
		case <-life.Done():
			return
		}
	}
}
