package abi

// TensorMap describes a tensor in device memory to the tensor memory accelerator: the arguments of
// cuTensorMapEncodeTiled and its siblings, a word each, as they travel. What the driver makes of it
// is opaque.
type TensorMap struct {
	Kind, DataType, Rank, Address uint64
	// Sizes are elements by dimension, Strides bytes from one to the next, from the second dimension
	// on.
	Sizes   [5]uint64
	Strides [4]uint64
	// Box and Steps are elements by dimension; Box is for tiles only.
	Box, Steps [5]uint64
	// Lower and Upper are corners of boxes of pixels, Channels and Pixels their sizes, and Mode their
	// form where they are wide.
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

// Sizes of a TensorMap on its way, and of what is made of it.
const (
	TensorMapBytes        = 36 * 8
	EncodedTensorMapBytes = 128
)
