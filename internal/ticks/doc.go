// Package ticks has loops that do something again and again until a context ends.
//
// Read every.go.
package ticks
