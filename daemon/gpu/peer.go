package gpu

// Peering is what a Context offers whose kernels reach the memory of other devices only when they
// are allowed to. Which devices can be allowed, DeviceInfo says under abi.AttrPeers. Where a
// context does not offer it, they may always.
type Peering interface {
	// AllowPeer lets the context's kernels touch the memory of another device, or not any more.
	AllowPeer(ordinal int, allow bool) error
}
