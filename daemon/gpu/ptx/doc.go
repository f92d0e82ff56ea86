// Package ptx is the front end for PTX, NVIDIA's virtual instruction set: text in, checked and
// typed instructions out.
//
// Parse is the entry point and Module the type to read first. The result is plain data: registers
// are numbered densely per class, labels are instruction indices, parameters have offsets, and
// every instruction has been checked against the instruction table, so that an executor needs no
// names and meets no surprises. Every error carries line and column. An instruction outside the
// table is refused here, by name: at load, or, of texts read by Outline, when the kernel that has
// it is looked for.
//
// This package does not execute anything (daemon/gpu/soft/simt does) and knows nothing of devices.
package ptx
