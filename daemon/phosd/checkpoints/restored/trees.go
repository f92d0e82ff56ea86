package restored

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/view"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// The first and the longest time between two looks whether a restorer has exited, after the root of
// its tree has ended. Most exit at once.
const (
	minRestorerPoll = 5 * time.Millisecond
	maxRestorerPoll = time.Second
)

// keepEnded is how long a tree is known after its end: a pos_cli may have to find the next phosd
// first.
const keepEnded = 10 * time.Minute

// Restorers finds restorers; ckpt.CPU is one.
type Restorers interface {
	// Adopt finds the tree of the restorer at a path. proc.ErrGone is returned when the restorer has
	// exited.
	Adopt(ctx context.Context, control string) (ckpt.Restored, error)
}

// Options are what Trees need.
type Options struct {
	// Life ends when phosd ends; the trees go on.
	Life      context.Context //nolint:containedctx // phosd's own life, not a request's
	Restorers Restorers
	// Path returns the path of the socket of the restorer of a name.
	Path func(name string) string
}

// Trees are the restored trees by their names.
type Trees struct {
	options  Options
	made     atomic.Uint64
	watching sync.WaitGroup

	mu     sync.Mutex // guards byName
	byName map[string]*Tree
}

// New returns Trees without any tree.
func New(options Options) *Trees {
	return &Trees{options: options, byName: make(map[string]*Tree)}
}

// maxSocketPath is the length of the longest path of a socket.
const maxSocketPath = 107

// NewRestorer returns the path of the socket of a new restorer. The name tells the next phosd the
// owner of the tree, and, unless it would be too long, the GPUs that have other numbers here than
// the tree knows.
func (all *Trees) NewRestorer(uid uint32, numbers view.Renumbered) string {
	path := all.options.Path(fmt.Sprintf("%d.%d-%s", uid, all.made.Add(1), strconv.FormatInt(time.Now().UnixNano(), 36)))
	if text := numbersText(numbers); len(path)+len(text) <= maxSocketPath {
		path += text
	}
	return path
}

// Found notes a tree that is going to run: what it starts then has its numbers.
func (all *Trees) Found(restored ckpt.Restored, control string, numbers view.Renumbered) {
	all.add(&Tree{restored: restored, control: control, numbers: numbers, ended: make(chan struct{})})
}

// Forget drops a tree that was found and does not run.
func (all *Trees) Forget(control string) { all.remove(filepath.Base(control)) }

// Renumbered returns the GPUs whose numbers a process knows otherwise, because of the tree that it
// belongs to.
func (all *Trees) Renumbered(process proc.Identity) view.Renumbered {
	for _, t := range all.list() { // without the lock: Includes reads files of the kernel
		if len(t.numbers) > 0 && t.restored.Includes(process) {
			return t.numbers
		}
	}
	return nil
}

// Find finds a tree for a caller that may know of it.
func (all *Trees) Find(name string, caller api.Caller) (*Tree, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	t := all.byName[name]
	if t == nil || !caller.CanAccess(t.owner()) {
		return nil, fmt.Errorf("%w: unknown restored tree; it ended too long ago", api.ErrNoProgram)
	}
	return t, nil
}

// Watch waits for the end of a tree in the background.
func (all *Trees) Watch(restored ckpt.Restored, control string, numbers view.Renumbered) *Tree {
	t := &Tree{restored: restored, control: control, numbers: numbers, ended: make(chan struct{})}
	all.add(t)
	all.watching.Go(func() {
		t.status, t.failed = all.awaitRoot(restored)
		close(t.ended)
		all.awaitRestorer(t)
		time.AfterFunc(keepEnded, func() { all.remove(t.Name()) })
	})
	return t
}

// awaitRoot waits for the end of a root. It asks the restorer again as long as phosd lacks file
// descriptors.
func (all *Trees) awaitRoot(restored ckpt.Restored) (status int, err error) {
	life := all.options.Life
	for {
		if status, err = restored.Wait(life); !proc.Unknown(err) {
			return status, err
		}
		select {
		case <-time.After(maxRestorerPoll):
		case <-life.Done():
			return 0, err
		}
	}
}

// Adopt watches the tree of a restorer that the phosd before has started.
func (all *Trees) Adopt(ctx context.Context, control string) (processes int, err error) {
	restored, err := all.options.Restorers.Adopt(ctx, control)
	if err != nil {
		return 0, err
	}
	all.Watch(restored, control, numbersIn(control))
	return len(restored.Processes()), nil
}

// Wait returns when no tree is watched any longer, soon after Options.Life has ended.
func (all *Trees) Wait() { all.watching.Wait() }

func (all *Trees) add(t *Tree) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.byName[t.Name()] = t
}

func (all *Trees) remove(name string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.byName, name)
}

// list returns the trees of now, in any order.
func (all *Trees) list() []*Tree {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Collect(maps.Values(all.byName))
}

// awaitRestorer polls until the restorer has exited: Adopt then removes its socket. Other processes
// of the tree may live longer than the root.
func (all *Trees) awaitRestorer(t *Tree) {
	life := all.options.Life
	for wait := minRestorerPoll; ; wait = min(2*wait, maxRestorerPoll) {
		if _, err := all.options.Restorers.Adopt(life, t.control); errors.Is(err, proc.ErrGone) {
			return
		}
		select {
		case <-time.After(wait):
		case <-life.Done():
			return
		}
	}
}
