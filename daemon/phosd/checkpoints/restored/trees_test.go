package restored

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu/view"
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

// TestNumbersInNames: the next phosd learns from a tree's name which GPUs have other numbers.
func TestNumbersInNames(t *testing.T) {
	directory := "/run/phos/control/"
	all := New(Options{Path: func(name string) string { return directory + "tree-" + name }})
	for _, want := range []view.Renumbered{{}, {0: 1, 1: 0}, {0: 23, 23: 10, 10: 0}, {6: 1, 7: 0, 0: -1, 1: -1}} {
		tree := Tree{control: all.NewRestorer(1000, want)}
		if got := numbersIn(tree.control); !maps.Equal(got, want) || tree.owner() != 1000 {
			t.Errorf("%s: got %v of user %d, want %v", tree.Name(), got, tree.owner(), want)
		}
	}
	for _, name := range []string{"tree-0.1-abc", "tree-0.1-abc.", "tree-0.1-abc.0", "tree-0.1-abc.?!", "tree-0.1-abc.0?", "tree-7"} {
		if got := numbersIn(directory + name); len(got) > 0 {
			t.Errorf("%s: got %v, want none", name, got)
		}
	}
	many := view.Renumbered{}
	for i := range 24 {
		many[i] = (i + 1) % 24
	}
	directory = "/" + strings.Repeat("d", 63) + "/control/"
	if path := all.NewRestorer(1000, many); len(path) > maxSocketPath {
		t.Errorf("%s is too long for a socket", path)
	}
}
