// Package model describes software GPUs: their number, names, attributes and limits.
//
// Parse reads a specification. Everything else follows from it and is the same on every machine.
// Package soft implements the behaviour of the devices.
package model
