// Package control is the leader of a cluster: it keeps the launches and nodes, asks the scheduler
// what runs where, and tells the agents. Packages below it answer people (serve), and do what needs
// no leader.
//
// All of the leader's state belongs to one goroutine (leader.go). Requests, reports of agents and
// plans of the scheduler are turns of it. A turn changes records; after a batch of turns the
// changed records are written to the store with the leader's epoch, and only then are callers
// answered and agents told. So whatever a caller or an agent has seen, the next leader sees too.
//
//	controller.go  a process that may lead, and the leader while it does; what it is configured with
//	leader.go      the goroutine and its turns
//	turn.go        what a request may do in a turn
//	create.go      requests for new launches
//	administer.go  requests about nodes
//	records.go     the store: what a new leader reads, and what a batch has changed
//	entry.go       a launch: its record and the events that change it
//	part.go        what the scheduler places at once, and what it decides of that
//	save.go        launches that give their places back; saves, of several replicas in one cut
//	move.go        launches that move to other nodes while they run
//	quota.go       limits of accounts
//	node.go        a node: its lease, and when it is given up
//	inventory.go   what a node has
//	queue.go       the scheduler, which runs in a goroutine of its own
//	queuenodes.go  what the schedulers know of nodes, and of launches that ran before
//	reserve.go     what nodes have: tables for the placers, and places that are checked
//	explain.go     why a launch waits
//	attach.go      what agents say, and are told
//	images.go      where images are, and where copies shall be
//
// It starts no process and knows no etcd: agents do the one, package cluster/store hides the other.
// Its only lock is that of a Controller. Read leader.go.
package control
