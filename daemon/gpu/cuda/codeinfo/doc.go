// Package codeinfo reads from device code what the driver does not report: the variables of a
// module and, for drivers before CUDA 12.4, the kernels and their parameter layouts. Machine code
// has them in its symbols and its sections .nv.info.KERNEL, PTX in its declarations. It does not
// parse PTX, because real drivers accept more than internal/ptx; it searches the text for names.
// Read params.go first.
package codeinfo
