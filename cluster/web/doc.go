// Package web serves the page of a cluster to browsers: launches with their course, the queue,
// nodes, events and logs, as files in the binary (directory page) and JSON with server-sent events
// below /api.
//
// It stands on the services that gRPC serves, so a browser gets what its caller may see, and
// nothing else. On loopback the kernel says which user has connected; elsewhere TLS and a token
// are needed. All requests that change something need a login, and the secret of that login in a
// header, which a page of another site cannot know (session.go). Names, logs and errors of users
// are hostile: they leave here without control characters (plain.go), and the page shows them as
// text only.
//
//	server.go    routes, and the listener
//	guard.go     requests that no browser may make for another site; headers
//	caller.go    the caller of a request
//	session.go   logins
//	launches.go  launches: pages of a list, one, why it waits, actions
//	nodes.go     nodes and the summary of GPUs
//	follow.go    what changes, as server-sent events (stream.go)
//	timeline.go  the course of a replica, as segments and marks
//
// # Locking
//
// Logins, streams and changes have a lock each, which is held for some statements. None is taken
// while another one is held. That of an eventStream is held while the browser takes an event, for
// writeTimeout at most; nothing else waits for it but the same stream.
//
// It places nothing and stores nothing. The page is tested in a browser by tests/page. Read
// server.go.
package web
