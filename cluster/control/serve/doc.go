// Package serve answers what people and agents ask of a controller by gRPC. It checks the caller's
// rights, makes a turn of the leader, and converts what that has into messages.
//
// # Locking
//
// Only watchers have a lock; no two are held at the same time.
//
// Read serve.go.
package serve
