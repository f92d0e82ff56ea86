// Package hollow makes clusters of many nodes on one machine. A hollow node runs nothing: it has a
// certificate, a connection and a lease of its own, by the code of the real agent (link.Link), but
// instead of starting processes it notes that it was told to. Controllers and etcd are the real
// ones, each in a process of its own.
//
// A Fleet checks what it is told: no GPU is given twice, no attempt is started twice, and no order
// is of an older leader.
package hollow
