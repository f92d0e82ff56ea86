// Package codeinfo reads from device code what the driver does not say: which variables a module
// has, and for drivers before CUDA 12.4 which kernels, and where their parameters lie. Machine code
// says it in its symbols and its sections .nv.info.KERNEL, PTX in its declarations. It is no parser
// of PTX: real drivers take more than daemon/gpu/ptx knows, so that names are looked for in the
// text. Read params.go first.
package codeinfo
