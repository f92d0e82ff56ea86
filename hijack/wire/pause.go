//go:build amd64 || arm64

package wire

// pause tells the processor that this is a spin loop, so that the sibling hyperthread gets the
// execution units.
//
//go:noescape
func pause()
