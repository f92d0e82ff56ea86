package model

import (
	"encoding/binary"
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Limits of the tensor accelerator of capability 9.0, from the driver's manual.
const (
	tensorSizes      = 1 << 32
	tensorStrides    = 1 << 40
	tensorBox        = 256
	tensorSteps      = 8
	tensorAlignment  = 16
	tensorTypes      = 16
	tensorInterleave = 2
)

// tensorMagic identifies a tensor map that a software GPU encoded.
const tensorMagic = 0x736f_6668_7074_656e

// EncodeTensor encodes a tensor description in the format of software GPUs, with the driver's
// checks. Kernels of the software GPU cannot use it: the accelerator's instructions are not
// supported.
func EncodeTensor(t *abi.TensorMap) (encoded [abi.EncodedTensorMapBytes]byte, err error) {
	if err := checkTensor(t); err != nil {
		return encoded, err
	}
	order := binary.LittleEndian
	order.PutUint64(encoded[0:], tensorMagic)
	order.PutUint64(encoded[8:], t.Address)
	for i, v := range []uint64{t.Kind, t.DataType, t.Rank, t.Interleave, t.Swizzle, t.Promotion, t.Fill, t.Mode} {
		encoded[16+i] = byte(v)
	}
	for i := range t.Sizes {
		order.PutUint32(encoded[24+4*i:], uint32(t.Sizes[i]-1))
		encoded[44+i], encoded[49+i] = byte(t.Box[i]-1), byte(t.Steps[i])
	}
	for i, stride := range t.Strides {
		order.PutUint64(encoded[56+8*i:], stride)
	}
	for i := range t.Lower {
		order.PutUint16(encoded[88+2*i:], uint16(t.Lower[i]))
		order.PutUint16(encoded[94+2*i:], uint16(t.Upper[i]))
	}
	order.PutUint16(encoded[100:], uint16(t.Channels))
	order.PutUint16(encoded[102:], uint16(t.Pixels))
	return encoded, nil
}

// MoveTensor replaces the address of an encoded tensor map.
func MoveTensor(encoded [abi.EncodedTensorMapBytes]byte, address uint64) ([abi.EncodedTensorMapBytes]byte, error) {
	if binary.LittleEndian.Uint64(encoded[0:]) != tensorMagic {
		return encoded, tensorError("not a tensor map")
	}
	if address%tensorAlignment != 0 {
		return encoded, tensorError("address %#x is not a multiple of %d", address, tensorAlignment)
	}
	binary.LittleEndian.PutUint64(encoded[8:], address)
	return encoded, nil
}

// tensorError returns an abi.InvalidValue error.
func tensorError(format string, args ...any) error {
	return &gpu.Error{Op: "encode tensor map", Code: abi.InvalidValue, Detail: fmt.Sprintf(format, args...)}
}

// checkTensor checks a description as the driver does.
func checkTensor(t *abi.TensorMap) error {
	switch {
	case t.DataType >= tensorTypes || t.Interleave > tensorInterleave:
		return tensorError("type %d, interleave %d", t.DataType, t.Interleave)
	case t.Kind > abi.TensorIm2colWide,
		t.Rank == 0 || t.Rank > 5,
		t.Rank < 3 && (t.Kind != abi.TensorTiled || t.Interleave != 0):
		return tensorError("rank %d of kind %d, interleave %d", t.Rank, t.Kind, t.Interleave)
	case t.Address%tensorAlignment != 0:
		return tensorError("address %#x is not a multiple of %d", t.Address, tensorAlignment)
	}
	for i := range t.Rank {
		switch {
		case t.Sizes[i] == 0 || t.Sizes[i] > tensorSizes:
			return tensorError("size %d of dimension %d", t.Sizes[i], i)
		case t.Kind == abi.TensorTiled && (t.Box[i] == 0 || t.Box[i] > tensorBox):
			return tensorError("box %d of dimension %d", t.Box[i], i)
		case t.Steps[i] == 0 || t.Steps[i] > tensorSteps:
			return tensorError("step %d of dimension %d", t.Steps[i], i)
		case i > 0 && (t.Strides[i-1]%tensorAlignment != 0 || t.Strides[i-1] >= tensorStrides):
			return tensorError("stride %d of dimension %d", t.Strides[i-1], i)
		}
	}
	return nil
}
