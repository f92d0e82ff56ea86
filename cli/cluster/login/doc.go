// Package login has the verbs login and logout: they write and remove the file by which a user
// reaches a cluster (cluster/identity/access).
//
// The fingerprint of the CA comes to the user by another way than the network, with the token. So
// the token is sent to no controller that does not prove to be of that cluster.
//
// Read verb.go. Tested by tests/cluster, with a real controller.
package login
