// Package cuda is the backend for real GPUs: it implements gpu.Backend by calls of the NVIDIA
// driver, or of any library with the same interface.
//
// The session chooses the addresses of memory. Open reserves a window of addresses for each device,
// and Map puts physical memory there. The driver places only the variables of modules.
//
// A checkpoint finds changes by digests that a kernel of this package computes, and copies chunks
// to shadow buffers in device memory (changes.go).
//
// Work that the driver can order goes to the driver's streams at once: launches, copies and fills
// of device memory, events. Work that needs the host in the middle of a stream, a Call or a copy
// with pageable memory, goes to the stream's host queue (hostqueue.go). So does a copy that touches
// no device memory, because the driver would wait for it in the call (bounce.go). The queue's
// goroutine waits for the driver, does the work, and lets later work proceed. A Completion runs
// beside the stream (completion.go). So no function of the session runs on a thread of the driver,
// and every Call runs even after a fault.
//
// A fault ends all contexts of the process, with their memory, and the driver does not report its
// address. So this backend is not a gpu.FaultContainer.
//
// Lock order, outermost first: aliases.mu, device.reading, Executable.mu, Stream.mu,
// Backend.registering, Backend.mu, changeFinder.mu, device.mu, Backend.ledgerMu. clock.mu comes
// before pool.mu. All other locks are leaves: no lock is taken while one is held. Two device.mu are
// held together only under Backend.registering.
//
// The package knows nothing of sessions, images or the transport. Tested by tests/nested, which
// also fails each driver call once. Read backend.go, then stream.go and hostqueue.go.
package cuda
