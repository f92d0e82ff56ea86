// Package fdtoken passes open files over the unix sockets that also serve gRPC. A separate
// connection carries the files and is answered with a token; a later gRPC message names the token.
// So phosd uses directories and terminals that its callers opened with their own rights, and never
// opens a path for a user.
//
// A token is valid only for the process that sent the files, can be used once, and expires. What
// the files are for is said in the gRPC request. Read store.go first.
//
// # Locking
//
// Store.mu and the lock of a stream are leaves: while one is held, no other is taken.
package fdtoken
