// Package ticks has loops and pauses that end with a context.
//
// Read every.go.
package ticks
