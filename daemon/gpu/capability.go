package gpu

import "github.com/phos-gpu/phos/hijack/abi"

// ClusterFunction is a Function of a device that runs blocks in clusters. Both methods ignore the
// launch's parameters.
type ClusterFunction interface {
	// ActiveClusters returns how many clusters of the launch's size fit on the device at once.
	ActiveClusters(launch Launch) (int, error)
	// LargestCluster returns the maximum number of blocks in a cluster for the launch's shape.
	LargestCluster(launch Launch) (int, error)
}

// TensorMapper is a Context of a device that encodes tensor maps for its kernels. An encoded map
// holds device addresses. It is valid in any context of an equal device that has the same memory at
// the same addresses.
type TensorMapper interface {
	EncodeTensorMap(tensor *abi.TensorMap) ([abi.EncodedTensorMapBytes]byte, error)
	// ReplaceAddress returns a copy of an encoded map for the same tensor at another address.
	ReplaceAddress(encoded [abi.EncodedTensorMapBytes]byte, address uint64) ([abi.EncodedTensorMapBytes]byte, error)
}

// Limiter is a Context of a device with limits for kernels: stack size and device-side launches.
// The heap limit is LoadOptions.HeapBytes. Device printf has no limit; it goes to
// ContextOptions.Output.
type Limiter interface {
	// SetLimit sets a CUlimit. It may wait for running kernels.
	SetLimit(limit int32, value uint64) error
}
