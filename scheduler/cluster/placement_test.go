package cluster

import (
	"slices"
	"strings"
	"testing"
)

// TestPlacementText has texts by hand, and every subset of 3 nodes of 4 GPUs there and back.
func TestPlacementText(t *testing.T) {
	g := func(node NodeID, indices ...int32) (p Placement) {
		for _, i := range indices {
			p = append(p, GPU{node, i})
		}
		return p
	}
	for want, p := range map[string]Placement{
		"":                nil,
		"7:2":             g(7, 2),
		"0:0-1":           g(0, 0, 1),
		"5:0+2-3":         g(5, 0, 2, 3),
		"0-1:0-1;3:0-1":   slices.Concat(g(0, 0, 1), g(1, 0, 1), g(3, 0, 1)),
		"0:0;1:1;2-3:0+2": slices.Concat(g(0, 0), g(1, 1), g(2, 0, 2), g(3, 0, 2)),
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for set := range 1 << 12 {
		var p Placement
		for i := range 12 {
			if set>>i&1 != 0 {
				p = append(p, GPU{NodeID(i / 4), int32(i % 4)})
			}
		}
		if got, err := ParsePlacement(p.String()); err != nil || !slices.Equal(got, p) {
			t.Fatalf("%q: got %v, %v; want %v", p, got, err, p)
		}
	}
}

// TestWithout compares all pairs of sets of two nodes' GPUs with the difference of bits.
func TestWithout(t *testing.T) {
	set := func(bits int) (p Placement) {
		for i := range 6 {
			if bits>>i&1 != 0 {
				p = append(p, GPU{NodeID(i / 3), int32(i % 3)})
			}
		}
		return p
	}
	for a := range 1 << 6 {
		for b := range 1 << 6 {
			if got, want := set(a).Without(set(b)), set(a&^b); !slices.Equal(got, want) {
				t.Errorf("%v without %v is %v, want %v", set(a), set(b), got, want)
			}
		}
	}
}

func TestBadPlacements(t *testing.T) {
	for _, text := range []string{
		"0", ":", "0:", ":0", "0:0;", ";0:0", "0:0+", "a:0", "0:-1", "0:1-1", "0:2-1", "0:0+0", "0:1+0", "1:0;0:0", "0:0;0:0",
		"0-1:0;1:0", "0:0-99999999999", "0:0-2147483647", "0:0-2147483645", "0-2147483645:0", "0-99999:0-9999", "0x1:0", "+1:0", "0: 0",
		"0:0," + strings.Repeat("0", 1<<20),
	} {
		if p, err := ParsePlacement(text); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.60q: got %d GPUs, %v", text, len(p), err)
		}
	}
}

func FuzzParsePlacement(f *testing.F) {
	f.Add("0-3:0-7;5:0+2-3")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePlacement(text)
		if err != nil {
			return
		}
		if again, err := ParsePlacement(p.String()); err != nil || !slices.Equal(again, p) {
			t.Errorf("%q: %v, then %v, %v", text, p, again, err)
		}
	})
}
