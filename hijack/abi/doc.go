// Package abi defines the numbers of the CUDA driver interface: result codes, attributes and,
// generated from hijack/spec, the permanent numbers of the calls that libphos forwards.
//
// It contains only numbers and names. The behaviour is in daemon/worker/session, the encoding in
// hijack/wire. Names follow the driver's, so that readers can find them in its manual.
package abi
