// Package gpu is the contract between a session and the GPU behind it.
//
// A session (daemon/worker/session) knows handles, ownership, capture and graphs; a backend knows
// how to run work. There are two: gpu/soft, a software GPU that executes PTX on the CPU, and
// gpu/cuda, a real device through the driver. gpu/gputest is the conformance suite that both must
// pass unchanged.
//
// Read Backend, then Context, then Work. Addresses of device memory are chosen by the session,
// never by a backend; a backend only backs a range with memory.
package gpu
