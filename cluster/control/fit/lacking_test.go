package fit

import (
	"testing"

	"github.com/phos-gpu/phos/cluster/launch"
	"github.com/phos-gpu/phos/cluster/record"
)

// TestLackingCountsAll: an empty node has all its GPUs, and all its places for replicas without.
func TestLackingCountsAll(t *testing.T) {
	node := Node{Name: "a", Open: true, Millicpus: 1 << 20, Memory: 1 << 40, GPUs: make([]record.GPU, Slots)}
	for _, test := range []struct {
		name                      string
		replicas, each, gpusThere int
		fits                      bool
	}{
		{"all places", Slots, 0, 0, true},
		{"one place more", Slots + 1, 0, 0, false},
		{"all GPUs", 1, Slots, Slots, true},
		{"one of each GPU", Slots, 1, Slots, true},
		{"one GPU more", 1, 4, 3, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			has := node
			has.GPUs = node.GPUs[:test.gpusThere]
			need := Need{Launch: "l-one", Place: launch.Place{}}
			for i := range test.replicas {
				need.Replicas = append(need.Replicas, Replica{Number: i, GPUs: test.each})
			}
			lacking := Lacking(Table{has}, &need)
			if (lacking == "") != test.fits {
				t.Errorf("got %q", lacking)
			}
		})
	}
}
