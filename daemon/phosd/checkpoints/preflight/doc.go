// Package preflight finds all obstacles that keep an image from being restored on this machine. It
// starts nothing and changes nothing. The obstacles of a checkpoint are found by package
// criu/inspect.
package preflight
