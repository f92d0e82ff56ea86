// Package identity says which caller a request to a cluster comes from, and what that caller may
// do.
//
// A Caller is a node or a controller by its certificate, a user by a token, or a user of the
// controller's machine by the socket of the process. Below this package are the parts that prove
// it:
//
//   - authority: the CA of a cluster, the certificates that it issues, and how it is replaced
//   - token: the tokens by which nodes join and by which users are known
//   - channel: settings of TLS for controllers, nodes and users
//   - local: callers on the machine itself, by unix socket or loopback
//   - access: the file in which a user keeps addresses, CA and token of a cluster
//
// May decides what a caller may do. It is a table and nothing else: right.go.
//
// The package speaks no protocol, keeps no file and has no clock. It does not look accounts up: the
// account of a user is a name until a node has to run a launch as it, which CheckAccount guards.
//
// Read caller.go first.
package identity
