// Package fdtoken moves open files over the unix sockets that gRPC is served on, beside gRPC: a
// connection of its own carries them and is answered with a token, and a later message names the
// token. phosd so works with directories and terminals that its callers opened with their rights,
// and never opens a path on a user's word.
//
// Files are kept for the very process that sent them, are given out once, and are closed when
// nobody asks for them. It is no message format: what the files are for stands in the request. Read
// desk.go first.
package fdtoken
