// Package launch reads and checks descriptions of launches, and computes the next state of a launch
// from an event.
//
// A launch has jobs, a job has replicas, and a replica has processes that run together on one node.
// All replicas start at once or not at all; of a range, the least do, and others join later. A
// description comes from a file, from a command line, or over the network; ReadTOML, ReadJSON and
// Check are the only ways in, so that each is refused in the same words.
//
// A process also gets variables, which environment.go lists.
//
// The package starts nothing and knows no clock, no store and no node: cluster/control keeps the
// states, and cluster/agent runs the replicas. Read spec.go first.
package launch
