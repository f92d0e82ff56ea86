// Package cudadrv calls the NVIDIA driver: libcuda.so.1, or any library with the same interface,
// opened at run time. Building it needs neither CUDA's headers nor its libraries.
//
// It is a thin layer: a method is one call, and an error is the driver's own code (abi.Result). Its
// only state is which context is current on which thread. A call that needs a context takes it as
// the first argument and makes it current on its thread, so that goroutines may move between
// threads.
//
// It does not model a GPU: that is daemon/gpu/cuda, which uses it. Built without cgo, Open returns
// ErrNoCgo. Its locks are never held together: each guards one table. Tested by tests/nested. Read
// open.go first, then memory.go and module.go, which are written by hand because their calls take
// structures. zz_calls.go is generated from hijack/spec by the list in hijack/gen.
package cudadrv
