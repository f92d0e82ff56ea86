// Package link keeps a node attached to the controller that leads: it connects, renews the node's
// lease and certificate, and passes on what the leader orders and asks. A Host says what a node is:
// the agent, or a hollow node in tests. Tested by tests/cluster.
//
//	link.go         connections to controllers, one after the other
//	controllers.go  which controllers there are, and which to try next
//	stream.go       the stream to the leader
//	answer.go       questions of the leader
//	certificate.go  the node's certificate, renewed by the leader
//
// Read link.go.
package link
