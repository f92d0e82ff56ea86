// Package fit decides which nodes of a cluster can take the replicas of a launch: each replica
// whole on one node that has what it asks for. It knows neither the store nor agents.
//
// Placer is used by the scheduler's goroutine; its one lock guards what the leader gives it. Tested
// by the tests of cluster/control. Read placer.go.
package fit
