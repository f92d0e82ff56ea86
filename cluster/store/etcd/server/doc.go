// Package server runs an etcd inside the process of the controller: alone on one machine, where
// only a unix socket leads to it, or as one of three or five members that know each other by
// certificates.
//
// The data directory, and the directory of the socket, must belong to the user of the process and
// be closed to all others: etcd does not ask its clients on a unix socket for anything. One process
// uses a data directory at a time. A file in it says which member of which cluster it belongs to.
//
// etcd ends the process on some errors, as on a full disk. Here it does not: the goroutine of etcd
// in which it happens ends, nothing is acknowledged any longer, and Failed is closed. The
// controller ends then, as etcd would have done; a server that has failed cannot be started again
// in the same process.
//
// The history of changes is compacted each hour. If the database reaches the quota, the server
// makes room by itself where it can (reclaim.go).
//
// Package cluster/store/etcd is the client. Read config.go and server.go.
package server
