package restored

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
)

// TestFind checks that a tree is found only by its owner and root.
func TestFind(t *testing.T) {
	all := New(Options{})
	for _, name := range []string{"tree-1000.1-abc", "tree-0.2-abc", "tree-7-abc"} {
		all.add(&Tree{control: "/run/phos/control/" + name})
	}
	for _, test := range []struct {
		name string
		uid  uint32
		may  bool
	}{
		{"tree-1000.1-abc", 1000, true},
		{"tree-1000.1-abc", 0, true},
		{"tree-1000.1-abc", 1001, false},
		{"tree-0.2-abc", 0, true},
		{"tree-0.2-abc", 1000, false},
		{"tree-7-abc", 0, true},
		{"tree-7-abc", 7, false},
		{"tree-1000.2-abc", 0, false},
		{"", 0, false},
	} {
		found, err := all.Find(test.name, api.Caller{UID: test.uid})
		if test.may != (err == nil && found.Name() == test.name) || !test.may && !errors.Is(err, api.ErrNoProgram) {
			t.Errorf("tree %q for user %d: got %v, want found = %v", test.name, test.uid, err, test.may)
		}
	}
}
