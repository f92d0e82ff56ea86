// Package messages has what several programs of a cluster do with messages of cluster/api: exits
// and numbers are converted, code is sent and received, foreign use of GPUs is put in words. What
// only one program does stands there; how errors cross is in cluster/api.
//
// Read exits.go.
package messages
