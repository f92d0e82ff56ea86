// Package control is the leader of a cluster: it keeps the launches and nodes, asks the scheduler
// what runs where, tells the agents, and answers people.
//
// All of the leader's state belongs to one goroutine (leader.go). Requests, reports of agents and
// plans of the scheduler are turns of it. A turn changes records; after a batch of turns the
// changed records are written to the store with the leader's epoch, and only then are callers
// answered and agents told. So whatever a caller or an agent has seen, the next leader sees too.
//
//	leader.go    the goroutine and its turns
//	load.go      what a new leader reads
//	write.go     changed records into the store
//	entry.go     a launch: its record and the events that change it
//	node.go      a node: its lease, and when it is given up
//	queue.go     the scheduler, which runs in a goroutine of its own
//	placer.go    which nodes can take a replica
//	orders.go    what shall be on a node
//	session.go   the stream between an agent and the leader
//	service*.go  the gRPC services
//
// Time that leases depend on is the boot time of this machine (internal/linux/boottime); time for
// people is the wall clock.
//
// It starts no process and knows no etcd: agents do the one, package cluster/store hides the other.
// Read leader.go.
package control
