package restored

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
)

// Tree is a restored process tree and its restorer.
type Tree struct {
	restored ckpt.Restored
	// control is the path of the restorer's socket; its base name is the tree's name.
	control string
	// ended is closed when the root has ended; status and failed may be read then.
	ended  chan struct{}
	status int
	failed error
}

// Name returns the name by which Trees.Find finds the tree.
func (t *Tree) Name() string { return filepath.Base(t.control) }

// Signal sends a signal to the root.
func (t *Tree) Signal(signal int) error { return t.restored.Signal(signal) }

// Loaded waits until all memory of the processes is there. The error is ckpt.ErrMemoryLost if the
// tree was killed because some cannot be brought back.
func (t *Tree) Loaded(ctx context.Context) error { return t.restored.Loaded(ctx) }

// Wait waits for the root's end and returns its exit status.
func (t *Tree) Wait(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
		return t.status, t.failed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// owner returns the user id of the tree's owner; root's if the name does not say.
func (t *Tree) owner() (uid uint32) {
	_, name, _ := strings.Cut(t.Name(), "-")
	if n, err := fmt.Sscanf(name, "%d.", &uid); n != 1 || err != nil {
		return 0
	}
	return uid
}
