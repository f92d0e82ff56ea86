// Package dirsync makes the names in a directory survive a power cut. File.Sync does so for the
// content of a file, not for its name.
//
// Read sync.go.
package dirsync
