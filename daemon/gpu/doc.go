// Package gpu is the contract between a session and the GPU behind it.
//
// A session (daemon/worker/session) manages handles, ownership, capture and graphs; a backend runs
// work. There are two backends: gpu/soft, a software GPU that executes PTX on the CPU, and
// gpu/cuda, real devices through the driver. gpu/gputest is the conformance suite that both must
// pass unchanged.
//
// Read Backend, then Context, then Work. The session chooses the addresses of device memory; the
// backend only backs a range with memory.
package gpu
