// Package access is the file in which a user keeps what it takes to reach a cluster: the addresses
// of its controllers, its CA, and the user's token. It is ~/.config/phos/cluster.json, with mode
// 0600, because of the token.
//
// Read file.go.
package access
