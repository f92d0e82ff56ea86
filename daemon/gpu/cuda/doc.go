// Package cuda is the backend for real GPUs: gpu.Backend by the NVIDIA driver, or by any library
// with its interface.
//
// Memory lies where the session wants it: a window of addresses is reserved for each device when
// the backend opens, and what Map backs is physical memory put there. Variables of modules are the
// exception; the driver places them.
//
// A checkpoint finds changes by digests that a kernel of ours computes, and puts copies aside in
// memory of the device (changes.go).
//
// Work goes to the driver's own streams at once, as long as the driver can order it: launches,
// copies and fills of device memory, events. What needs the host in the middle of a stream, a Call
// or a copy with the program's own memory, goes to the stream's lane (lane.go), a goroutine that
// waits for the driver, does it, and lets what follows go on. What a Tell runs waits beside the
// stream, which goes on (tell.go). So no function of ours ever runs on a thread of the driver's,
// and a fault never loses a Call.
//
// A fault ends all contexts of the process, with their memory, and nobody says at which address it
// was: that is the driver's rule, and why this is no gpu.FaultContainer.
//
// It knows no sessions, no images of checkpoints and no transport. Read backend.go, then stream.go
// and lane.go.
package cuda
