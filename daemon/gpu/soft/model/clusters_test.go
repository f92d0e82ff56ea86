package model

import (
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// TestBlankDevice checks what a blank device has like an H200, and that other devices keep theirs.
func TestBlankDevice(t *testing.T) {
	for text, want := range map[string][4]int32{ // multiprocessors, clusters, tensor maps, PTX only
		"soft:1":              {16, 0, 0, 1},
		"soft:1,blank":        {132, 1, 1, 0},
		"soft:1,blank,cc=8.9": {132, 0, 0, 0},
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d := spec.Devices()[0]
		got := [4]int32{
			d.Attributes[abi.AttrMultiprocessorCount], d.Attributes[abi.AttrClusterLaunch],
			d.Attributes[abi.AttrTensorMapAccessSupported],
		}
		if d.PTXOnly {
			got[3] = 1
		}
		if got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

// TestActiveClusters counts by hand in groups of 16 and 18 multiprocessors.
func TestActiveClusters(t *testing.T) {
	blank, plain := Spec{Blank: true, CC: 90}, Spec{CC: 90}
	for _, c := range []struct {
		spec            Spec
		blocks, cluster int
		want            int
	}{
		{blank, 1, 1, 132},
		{blank, 1, 2, 66},
		{blank, 1, 4, 6*4 + 2*4},
		{blank, 2, 4, 6*8 + 2*9},
		{blank, 1, 16, 8},
		{blank, 1, 32, 0},
		{blank, 0, 2, 0},
		{plain, 2, 1, 32},
		{plain, 2, 2, 0},
	} {
		if got := c.spec.ActiveClusters(c.blocks, c.cluster); got != c.want {
			t.Errorf("%+v: got %d, want %d", c, got, c.want)
		}
	}
}
