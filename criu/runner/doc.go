// Package runner runs CRIU for one request: it starts the program with the rights that the request
// needs and no more, exchanges go-criu's messages with it, and turns its log into an error.
// Freezing the tree and surviving phosd are tasks of packages watchdog and restorer.
//
// It has its own message loop instead of go-criu's client, because the client neither passes on the
// notification between "restored" and "running" nor lets its caller choose CRIU's credentials,
// namespaces and descriptors.
//
// Read runner.go first.
package runner
