// Package launches has the verbs about launches that exist: logs, why, events, wait, show, stop,
// suspend, resume, rerun, exec and top. Each only asks the cluster and prints; cli/cluster/view
// formats.
//
// # Locking
//
// The locks of Followed and of a session of exec are never held together.
//
// Read verbs.go first. Tested by cli/pos_cli and tests/cluster.
package launches
