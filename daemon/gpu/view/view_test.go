package view

import (
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// machine has four GPUs. The UUIDs of the first two begin with the same digits.
func machine() []gpu.DeviceInfo {
	devices := make([]gpu.DeviceInfo, 4)
	for i, begin := range [][]byte{
		{0x89, 0x32, 0xf9, 0x37, 0xd7, 0x2c}, {0x89, 0x32, 0xf9, 0x38}, {0x18, 0xef, 0x14, 0xe9}, {0xab, 0xcd},
	} {
		copy(devices[i].UUID[:], begin)
	}
	return devices
}

// TestParse compares with the examples of the CUDA programming guide (5.2.1.1), of PyTorch's tests
// of its imitation of the driver (test_cuda.py), and of nvitop's documentation.
func TestParse(t *testing.T) {
	for value, want := range map[string][]int{
		// The guide.
		"":         {},
		"2,1":      {2, 1},
		"0,2,-1,1": {0, 2},
		"GPU-8932f937-d72c-0000-0000-000000000000": {0},
		"GPU-8932f937":              {0},
		"GPU-8932f9":                {}, // two GPUs
		"MIG-GPU-8932f937/1/2":      {},
		"GPU-18ef,GPU-8932f938":     {2, 1},
		"GPU-18ef,GPU-77,GPU-ab":    {2},
		"GPU-18ef,GPU-89,GPU-abcd":  {2},
		"GPU-18ef,MIG-1,GPU-abcd":   {2},
		"GPU-18ef,0":                {2},
		"0,GPU-18ef":                {0},
		"GPU-":                      {}, // four GPUs
		"GPU-8932f937-d72c-0000-00": {0},
		"GPU-8932f937-d72d":         {},
		// PyTorch.
		"1gpu2,2ampere":      {1, 2},
		"0, 1,   2, -1, 3":   {0, 1, 2},
		"0,1,2,1":            {},
		"0,0":                {},
		"GPU-18ef,GPU-18ef1": {},
		"+1":                 {1},
		"-1":                 {},
		"-0":                 {0},
		// nvitop.
		"16":   {},
		"3":    {3},
		"0,16": {0},
		// An invalid entry ends the list, before a later one can repeat a GPU.
		"0,7,0":                   {0},
		"0,":                      {0},
		",0":                      {},
		" ":                       {},
		"none":                    {},
		"NoDevFiles":              {},
		"0x1":                     {0},
		"99999999999999999999999": {},
		"4294967296":              {},
		"18446744073709551617":    {},
		"-":                       {},
		"1 ,2":                    {1, 2},
		"0 1":                     {0},
		"3,2,1,0":                 {3, 2, 1, 0},
	} {
		if got := Parse(value, machine()); !slices.Equal(got, want) || got == nil {
			t.Errorf("%q: got %v, want %v", value, got, want)
		}
	}
}

// TestDevices: what the program reads of each GPU is that GPU's, with peers by the program's
// numbers.
func TestDevices(t *testing.T) {
	all := machine()
	for i := range all {
		all[i].MemoryBytes = uint64(i)
		all[i].Attributes = map[abi.DeviceAttribute]int32{abi.AttrPeers: 0b1111 &^ (1 << i), abi.AttrPeerAtomics: 0b0110}
	}
	if got := Devices(all, nil); len(got) != 4 || got[1].Window != all[1].Window {
		t.Errorf("all: got %+v", got)
	}
	got := Devices(all, []int{3, 1})
	if len(got) != 2 || got[0].MemoryBytes != 3 || got[1].UUID != all[1].UUID {
		t.Fatalf("got %+v", got)
	}
	if got[0].Window != gpu.WindowOf(all, 3) || got[1].Window != gpu.WindowOf(all, 1) {
		t.Error("a GPU has another window than it has among all GPUs")
	}
	for i, want := range []struct{ peers, atomics int32 }{{0b10, 0b10}, {0b01, 0b10}} {
		if a := got[i].Attributes; a[abi.AttrPeers] != want.peers || a[abi.AttrPeerAtomics] != want.atomics {
			t.Errorf("GPU %d: peers %b and %b, want %b and %b", i, a[abi.AttrPeers], a[abi.AttrPeerAtomics], want.peers,
				want.atomics)
		}
	}
	if all[3].Attributes[abi.AttrPeers] != 0b0111 {
		t.Error("the machine's own list was changed")
	}
}

func TestPlace(t *testing.T) {
	for _, test := range []struct {
		had   []int
		count int
		want  []int
	}{
		{nil, 2, nil},
		{[]int{1}, 2, []int{1}},
		{[]int{1}, 1, []int{0}},
		{[]int{3, 0}, 4, []int{3, 0}},
		{[]int{3, 0}, 2, []int{0, 1}},
		{[]int{0, 1, 2}, 2, nil},
		{[]int{1, 1}, 4, nil},
		{[]int{-1}, 4, nil},
	} {
		if got := Place(test.had, test.count); !slices.Equal(got, test.want) {
			t.Errorf("%v of %d: got %v, want %v", test.had, test.count, got, test.want)
		}
	}
}
