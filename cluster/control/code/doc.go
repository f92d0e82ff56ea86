// Package code keeps the packed directories of launches, as files that are named by their hash.
//
// It takes no lock: a file gets its name when it is complete. Read store.go.
package code
