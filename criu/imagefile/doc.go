// Package imagefile reads the images that CRIU writes, as far as phos needs them: the frames of
// records and the fields of messages, the memory of processes, and their parents.
//
// An image may be from a hostile user. What is read is checked, and every error is ErrMalformed.
// Read message.go. Memory is tested by package criu, too, with images of a real CRIU.
package imagefile
