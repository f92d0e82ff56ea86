package restored

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/daemon/gpu/ledger"
	"github.com/phos-gpu/phos/daemon/gpu/view"
)

// Tree is a restored process tree and its restorer.
type Tree struct {
	restored ckpt.Restored
	// control is the path of the restorer's socket; its base name is the tree's name.
	control string
	// numbers are those by which the tree knows GPUs that have others here.
	numbers view.Renumbered
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

// digits are those of the numbers of GPUs in the name of a tree, one for each of ledger.MaxGPUs;
// none stands for no GPU.
const (
	digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	none   = '-'
)

// numbersText returns the end of a tree's name, with two digits for each GPU that has another
// number here; empty if there is none.
func numbersText(numbers view.Renumbered) string {
	if len(numbers) == 0 || !numbers.Valid(ledger.MaxGPUs) {
		return ""
	}
	text := []byte{'.'}
	for _, known := range slices.Sorted(maps.Keys(numbers)) {
		digit := byte(none)
		if ordinal := numbers[known]; ordinal >= 0 {
			digit = digits[ordinal]
		}
		text = append(text, digits[known], digit)
	}
	return string(text)
}

// numbersIn reads what numbersText has written into a path.
func numbersIn(control string) view.Renumbered {
	_, rest, _ := strings.Cut(filepath.Base(control), ".")
	_, text, _ := strings.Cut(rest, ".")
	numbers := view.Renumbered{}
	for ; len(text) >= 2; text = text[2:] {
		known, ordinal := strings.IndexByte(digits, text[0]), strings.IndexByte(digits, text[1])
		if known >= 0 && (ordinal >= 0 || text[1] == none) {
			numbers[known] = ordinal
		}
	}
	return numbers
}
