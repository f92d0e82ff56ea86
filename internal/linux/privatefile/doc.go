// Package privatefile reads and writes small files that hold secrets: keys and tokens. Such a file
// belongs to its user and has mode 0600. One that others can read is refused, as ssh refuses a key.
//
// Read read.go.
package privatefile
