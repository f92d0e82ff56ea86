// Package cluster tests the cluster half end to end: real controllers with etcd in them, real
// agents and phosds on the hosts of tests/hosts, and real processes. Read site_test.go.
package cluster
