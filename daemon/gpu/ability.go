package gpu

import "github.com/phos-gpu/phos/hijack/abi"

// ClusterFunction is a Function of a device that runs blocks in clusters. Of a launch, parameters
// have no say here.
type ClusterFunction interface {
	// ActiveClusters is how many clusters of the launch's size fit the device at once.
	ActiveClusters(launch Launch) (int, error)
	// LargestCluster is how many blocks of the launch's shape a cluster can have.
	LargestCluster(launch Launch) (int, error)
}

// TensorMapper is a Context of a device that describes tensors to its kernels. What it makes holds
// device addresses, and is good for any context of an equal device that has the same memory at the
// same addresses.
type TensorMapper interface {
	EncodeTensorMap(tensor *abi.TensorMap) ([abi.EncodedTensorMapBytes]byte, error)
	// ReplaceAddress makes an encoded one over that describes the same tensor elsewhere.
	ReplaceAddress(encoded [abi.EncodedTensorMapBytes]byte, address uint64) ([abi.EncodedTensorMapBytes]byte, error)
}

// Limiter is a Context of a device whose kernels are bounded by what the program allows them:
// stacks and launches of their own. The heap is LoadOptions' matter, and what kernels print goes to
// ContextOptions.Output without bound.
type Limiter interface {
	// SetLimit sets a CUlimit. It may wait for kernels that run.
	SetLimit(limit int32, value uint64) error
}
