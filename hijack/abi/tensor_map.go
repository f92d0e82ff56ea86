package abi

// TensorMap describes a tensor in device memory to the tensor memory accelerator: the arguments of
// cuTensorMapEncodeTiled and its siblings, one word each, as they are sent. The driver's encoding
// of it is opaque.
type TensorMap struct {
	Kind, DataType, Rank, Address uint64
	// Sizes are elements by dimension. Strides are bytes from one element to the next, from the second
	// dimension on.
	Sizes   [5]uint64
	Strides [4]uint64
	// Box and Steps are elements by dimension; Box is for tiles only.
	Box, Steps [5]uint64
	// Lower and Upper are corners of boxes of pixels, Channels and Pixels their sizes, and Mode the
	// form of wide ones.
	Lower, Upper           [3]int64
	Channels, Pixels, Mode uint64
	Interleave, Swizzle    uint64
	Promotion, Fill        uint64
}

// Kinds of TensorMap.
const (
	TensorTiled      = 0
	TensorIm2col     = 1
	TensorIm2colWide = 2
)

// Sizes of a TensorMap in a frame, and of its encoding.
const (
	TensorMapBytes        = 36 * 8
	EncodedTensorMapBytes = 128
)
