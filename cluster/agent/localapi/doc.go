// Package localapi is what an agent serves to the processes of launches on its node: HTTP on a unix
// socket. A process asks which members its launch has now, or waits until they have changed. A
// training with phos.pipeline says how it is, for people that ask the cluster.
//
// The kernel names the user of a connection. A user is told of launches that have processes of that
// user on the node, of no others. Tested here, and by tests/cluster. Read server.go.
//
// # Locking
//
// Those of Generations, Trainings and listener are leaves: no other of this package is taken under
// them.
package localapi
