// Package overlay leaves pages out of a copy of a process's memory that an older generation of the
// image has already. What remains lies over the older copy, its base, as CRIU's images lie over
// their parent images: a page is taken from the uppermost that has it.
//
// A base is always a whole copy. So images never lie over more than two others, and a generation
// names all that it needs. A base is given up when less than half of it, or of the copy, is the
// same, or when the same pages are in too many pieces: the copy is whole then, and the next base.
//
// Read overlay.go. Tested by package criu, with a real CRIU.
package overlay
