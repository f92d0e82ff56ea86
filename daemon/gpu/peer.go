package gpu

// Peering is a Context whose kernels need permission to access other devices' memory. Attribute
// abi.AttrPeers of DeviceInfo lists the devices that can be permitted. Without Peering, access is
// always permitted.
type Peering interface {
	// AllowPeer permits or forbids the context's kernels to access another device's memory.
	AllowPeer(ordinal int, allow bool) error
}
