// Package model says what software GPUs look like: which there are, their names, attributes and
// limits.
//
// Parse reads a specification; everything else follows from it, the same on every machine. What the
// devices do is package soft's business.
package model
