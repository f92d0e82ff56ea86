// Package messages has what controllers and agents both do with messages of cluster/api: exits and
// numbers are converted, and code is received.
//
// Read exits.go.
package messages
