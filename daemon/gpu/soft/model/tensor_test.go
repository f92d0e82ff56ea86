package model

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

func tile() *abi.TensorMap {
	return &abi.TensorMap{
		DataType: 6, Rank: 3, Address: 0x3000_0000_0100, Sizes: [5]uint64{64, 1 << 32, 7}, Strides: [4]uint64{128, 8192},
		Box: [5]uint64{64, 256, 1}, Steps: [5]uint64{1, 2, 8}, Swizzle: 3, Promotion: 2, Fill: 1,
	}
}

// TestEncodeTensor changes each field of a description; no two encodings may be equal.
func TestEncodeTensor(t *testing.T) {
	seen := map[[abi.EncodedTensorMapBytes]byte]string{}
	for name, change := range map[string]func(*abi.TensorMap){
		"unchanged": func(*abi.TensorMap) {}, "kind": func(m *abi.TensorMap) { m.Kind = abi.TensorIm2col },
		"type":    func(m *abi.TensorMap) { m.DataType = 7 },
		"rank":    func(m *abi.TensorMap) { m.Rank, m.Sizes[3], m.Box[3], m.Steps[3] = 4, 1, 1, 1 },
		"address": func(m *abi.TensorMap) { m.Address += 16 }, "size": func(m *abi.TensorMap) { m.Sizes[1]-- },
		"stride": func(m *abi.TensorMap) { m.Strides[1] = 1<<40 - 16 }, "box": func(m *abi.TensorMap) { m.Box[1] = 1 },
		"step": func(m *abi.TensorMap) { m.Steps[2] = 1 }, "interleave": func(m *abi.TensorMap) { m.Interleave = 1 },
		"swizzle": func(m *abi.TensorMap) { m.Swizzle = 0 }, "promotion": func(m *abi.TensorMap) { m.Promotion = 0 },
		"fill": func(m *abi.TensorMap) { m.Fill = 0 }, "mode": func(m *abi.TensorMap) { m.Mode = 1 },
		"corner":   func(m *abi.TensorMap) { m.Lower[1] = -3 },
		"opposite": func(m *abi.TensorMap) { m.Upper[2] = 5 }, "channels": func(m *abi.TensorMap) { m.Channels = 256 },
		"pixels": func(m *abi.TensorMap) { m.Pixels = 1024 },
	} {
		m := tile()
		change(m)
		encoded, err := EncodeTensor(m)
		if other, twice := seen[encoded]; err != nil || twice {
			t.Errorf("%s: encoded as %q, error %v", name, other, err)
		}
		seen[encoded] = name
	}
}

func TestEncodeTensorRefuses(t *testing.T) {
	for name, change := range map[string]func(*abi.TensorMap){
		"rank 0": func(m *abi.TensorMap) { m.Rank = 0 }, "rank 6": func(m *abi.TensorMap) { m.Rank = 6 },
		"type": func(m *abi.TensorMap) { m.DataType = 16 }, "address": func(m *abi.TensorMap) { m.Address++ },
		"no size": func(m *abi.TensorMap) { m.Sizes[2] = 0 }, "size": func(m *abi.TensorMap) { m.Sizes[0] = 1<<32 + 1 },
		"stride": func(m *abi.TensorMap) { m.Strides[0] = 24 }, "box": func(m *abi.TensorMap) { m.Box[0] = 257 },
		"step":        func(m *abi.TensorMap) { m.Steps[0] = 9 },
		"flat pixels": func(m *abi.TensorMap) { m.Kind, m.Rank = abi.TensorIm2col, 2 },
	} {
		m := tile()
		change(m)
		if _, err := EncodeTensor(m); !errors.Is(err, abi.InvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMoveTensor(t *testing.T) {
	m := tile()
	encoded, _ := EncodeTensor(m)
	m.Address = 0x4000
	want, _ := EncodeTensor(m)
	if got, err := MoveTensor(encoded, 0x4000); err != nil || got != want {
		t.Errorf("% x, %v", got, err)
	}
	if _, err := MoveTensor(encoded, 0x4001); !errors.Is(err, abi.InvalidValue) {
		t.Error(err)
	}
	if _, err := MoveTensor([abi.EncodedTensorMapBytes]byte{}, 0x4000); !errors.Is(err, abi.InvalidValue) {
		t.Error(err)
	}
}
