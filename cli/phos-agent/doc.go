// Command phos-agent is the agent of a node: it makes true what a cluster's controller orders for
// the node.
//
// It only wires: cluster/agent does the work, cluster/identity proves the node's identity. The same
// program, under other names of a role, supervises the processes of a launch (cluster/agent/
// supervisor), and unpacks its code. Tested by tests/cluster. Read main.go.
package main
