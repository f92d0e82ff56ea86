// Package fatbin unpacks the containers that hold GPU code: NVIDIA's fat binaries with their
// compressed entries, bare cubins, PTX text, and phos's own container of linked PTX texts.
//
// Read Parse, then Images.Best. Bytes come from a program and are hostile until checked: every size
// is bounded before anything is allocated, and every refusal is an *Error. What the code means is
// not looked at; that is package ptx.
package fatbin
