// Command phos-controller is one controller of a cluster. It keeps the cluster's objects in an etcd
// inside it, or in one outside; leads, or waits until it is its turn; and serves people and agents.
//
// It only wires: cluster/control leads, cluster/store/etcd keeps, cluster/members knows the
// callers. Tested by tests/cluster. Read main.go.
package main
