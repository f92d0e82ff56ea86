// Package ptx is the front end for PTX, NVIDIA's virtual instruction set: it turns text into
// checked and typed instructions.
//
// Parse is the entry point and Module the type to read first. The result is plain data. Registers
// are numbered densely per class, labels are instruction indices, parameters have offsets, and
// every instruction was checked against the instruction table. So an executor needs no names and no
// further checks. Every error carries line and column. An instruction that is not in the table is
// refused by name: when the text is loaded or, if Outline read the text, when its kernel is looked
// up.
//
// This package does not execute anything (daemon/gpu/soft/simt does) and knows nothing of devices.
package ptx
