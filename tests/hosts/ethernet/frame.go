package ethernet

// A frame as a tap device reads and writes it: the header of virtio, which says what the sending
// kernel has left undone (checksums, segmentation), then the Ethernet frame. The header is passed
// on as it is; the receiving kernel understands it.
const (
	virtioBytes    = 24 // with what a tunnel's segmentation needs
	addressBytes   = 6
	smallestFrame  = virtioBytes + 2*addressBytes + 2
	largestFrame   = 1 << 17 // above 64 KiB of payload with all headers
	groupAddressed = 1       // the bit of the first byte of an address that several ports have
)

// address is a MAC address.
type address [addressBytes]byte

// group reports whether frames to the address go to all ports.
func (a address) group() bool { return a[0]&groupAddressed != 0 }

// addresses returns the receiver and the sender of a frame; ok is false for one that is too short.
func addresses(frame []byte) (to, from address, ok bool) {
	if len(frame) < smallestFrame {
		return to, from, false
	}
	copy(to[:], frame[virtioBytes:])
	copy(from[:], frame[virtioBytes+addressBytes:])
	return to, from, true
}
