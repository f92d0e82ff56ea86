// Package agent is what a node does for a cluster: it makes true what the leader orders, which it
// hears by package link.
//
// All that must outlive the agent is on the disk: a run directory for each attempt (package
// supervisor), and the highest epoch of an order. An agent that was restarted reads them and goes
// on; it starts nothing twice. Processes outlive the agent. If no leader renews the lease for long
// enough, the supervisors kill them, without the agent's help.
//
//	agent.go        the agent and its settings
//	attempts.go     what the node has, and what it shall have
//	attempt.go      the course of one attempt
//	prepare.go      working directories, code and environments
//	code.go         packed directories: fetched, and cached
//	unpack.go       packed directories: unpacked as their owner
//	saves.go        when an attempt is saved, and what has come of it
//	meeting.go      saves that wait for those of other replicas
//	network.go      networks of launches that have their own
//	image.go        where images are, and processes that go on from one
//	discard.go      what launches have left
//	inventory.go    what the node has for launches
//	ends.go         the ends of logs, sent to the leader
//	answer.go       logs, for people
//	exec.go         commands beside processes, for people
//	execstreams.go  their standard streams
//	usage.go        what processes use, for people
//
// What processes of launches ask for is in package localapi.
//
// Locks: attempts.mu before attempt.mu. execution.sending is a leaf.
//
// Read agent.go. tests/cluster runs agents with real controllers.
package agent
