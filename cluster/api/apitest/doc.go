// Package apitest is a cluster in the test's process: controllers on sockets, over one state in
// memory. It answers as cluster/control does, but places nothing and runs nothing; tests say what
// has happened to a launch. It is for tests of clients only.
//
// Read cluster.go, then controller.go. Tested by cluster/api.
package apitest
