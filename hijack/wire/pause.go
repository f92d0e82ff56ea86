//go:build amd64 || arm64

package wire

// pause tells the processor that this is a spinning loop, so that its twin gets the execution
// units.
//
//go:noescape
func pause()
