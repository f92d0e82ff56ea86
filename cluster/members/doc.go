// Package members keeps what belongs to a cluster: its CA, the tokens by which nodes join, and
// those by which users are known. It makes a new cluster, signs the certificates of controllers and
// nodes, and finds out which caller makes a request.
//
// Package identity says what each caller may do, and the packages below it prove which caller it
// is; none of them knows the store. This package keeps their records there. Any controller may use
// it, leading or not: each change is one compared write.
//
// Read members.go.
package members
