package restored

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
)

// Tree is a process tree that was restored, and its keeper.
type Tree struct {
	restored ckpt.Restored
	// control is where the keeper is found; its name is the tree's.
	control string
	// ended is closed when the root has ended; status and failed may be read then.
	ended  chan struct{}
	status int
	failed error
}

// Name is what the tree is found by.
func (t *Tree) Name() string { return filepath.Base(t.control) }

// Signal sends one to the root.
func (t *Tree) Signal(signal int) error { return t.restored.Signal(signal) }

// Wait is the root's exit status.
func (t *Tree) Wait(ctx context.Context) (int, error) {
	select {
	case <-t.ended:
		return t.status, t.failed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// owner is whose tree it is; root's where the name does not say so.
func (t *Tree) owner() (uid uint32) {
	_, name, _ := strings.Cut(t.Name(), "-")
	if n, err := fmt.Sscanf(name, "%d.", &uid); n != 1 || err != nil {
		return 0
	}
	return uid
}
