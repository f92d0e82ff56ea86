// Package cudadrv calls the NVIDIA driver, the real one or any library that has its interface:
// libcuda.so.1, opened when the program runs. Neither CUDA's headers nor its libraries are needed
// to build it.
//
// It is thin: a method is a call, an error is the driver's own code (abi.Result), and nothing is
// remembered but which context is current on which thread. A call that needs a context takes it
// first and makes it current on the thread that it happens to be on, so that goroutines may move
// between threads.
//
// It is no model of a GPU: that is daemon/gpu/cuda, its only user. Built without cgo, Open returns
// ErrNoCgo. Read open.go first, then memory.go and module.go, which are written by hand because
// their calls take structures; zz_calls.go is generated from hijack/spec by the list in hijack/gen.
package cudadrv
