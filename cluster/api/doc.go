// Package api is what crosses the network in a cluster: the messages and services of its gRPC API
// (cluster.proto), the client that finds the leader, and the mapping of errors to gRPC codes and
// back.
//
// Three services stand beside each other: Launches and Cluster for people, Agents for the nodes.
// The package contains no mechanism: the servers are in cluster/control/serve. go generate makes
// the zz_ files from cluster.proto. Tested by tests/cluster. Read cluster.proto first.
package api

//go:generate ../../scripts/protobuf.sh cluster.proto
