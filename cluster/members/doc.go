// Package members keeps what belongs to a cluster: its CA, the tokens by which nodes join, and
// those by which users are known. It makes a new cluster, signs the certificates of controllers and
// nodes, and finds out which caller makes a request.
//
// The proofs of identities, and what each caller may do, are in cluster/identity; the records are
// objects of the cluster's store. Any controller may use this package, leading or not: each change
// is one compared write.
//
// Read members.go.
package members
