// Package fatbin unpacks the containers that hold GPU code: NVIDIA's fat binaries with their
// compressed entries, bare cubins, PTX text, and phos's own container of linked PTX texts.
//
// Read Parse, then Images.Best. The input comes from a program and is not trusted: every size is
// checked before memory is allocated, and every refusal is an *Error. The package does not
// interpret the code; that is package ptx.
package fatbin
