// Package code copies the packed directories of launches between controllers, so that each leader
// has those of its launches, and removes those that no launch needs.
//
// Read copies.go, then unused.go.
package code
