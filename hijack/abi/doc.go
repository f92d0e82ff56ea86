// Package abi is the vocabulary of the CUDA driver interface: result codes, attribute numbers and,
// generated from hijack/spec, the permanent numbers of the calls that libphos forwards.
//
// It holds numbers and names only. Behaviour lives in daemon/worker/session, encoding in
// hijack/wire. Names here follow the driver's own, so that a reader can hold them against its
// manual.
package abi
