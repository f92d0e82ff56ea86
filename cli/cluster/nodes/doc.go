// Package nodes has the verbs about nodes and users of a cluster: node and user, for
// administrators. Each only asks the cluster and prints; cli/cluster/view formats.
//
// Read node.go first. Tested by cli/pos_cli.
package nodes
