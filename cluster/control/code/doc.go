// Package code keeps the packed directories of launches, as files that are named by their hash.
//
// A file gets its name when it is complete, so that its readers need no lock. What it has been
// verified to be is under a lock of its own (verified.go). Read store.go.
package code
