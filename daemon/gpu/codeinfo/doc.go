// Package codeinfo reads from device code what the driver does not report: the variables of a
// module and, for drivers before CUDA 12.4, the kernels and their parameter layouts. Machine code
// has them in its symbols and its sections .nv.info.KERNEL, PTX in its declarations. The
// variables in PTX are found by a search of the text, because real drivers accept more than
// internal/ptx parses; parameter layouts in PTX are parsed. ReadCubin reads all declarations of
// machine code, for software GPUs that take it without executing it.
// Read params.go first.
package codeinfo
