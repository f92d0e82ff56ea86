// Package messages has what several programs of a cluster do with messages of cluster/api: exits
// and numbers are converted, and code is sent and received.
//
// Read exits.go.
package messages
