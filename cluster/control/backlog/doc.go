// Package backlog has lists without limit between goroutines: one adds and never waits, another one
// takes all at once.
//
// A list has one lock, which is held for no longer than a slice is changed. Read list.go.
package backlog
