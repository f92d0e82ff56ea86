// Package runner runs CRIU for one request: it starts the program with the rights that the request
// needs and no more, speaks go-criu's messages with it, and turns its log into an error. It knows
// nothing of freezing, watching or keeping; packages watchdog and keeper do that around it.
//
// It has its own loop over go-criu's messages instead of go-criu's client, because the client
// neither passes on the moment between "restored" and "running" nor lets its caller choose
// credentials, namespaces and descriptors of CRIU.
//
// Read engine.go first.
package runner
