// Package codestore keeps the packed directories of launches, as files that are named by their
// hash: on controllers, and as a cache on nodes.
//
// A file gets its name when it is complete, so that its readers need no lock. What it has been
// verified to be is under a lock of its own (verified.go). Code that nothing uses any longer is
// removed by Sweep on controllers and by Shrink on nodes (remove.go). Read store.go.
package codestore
