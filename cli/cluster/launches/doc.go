// Package launches has the verbs about launches that exist: logs, why, events, wait, show, stop,
// suspend, resume and rerun. Each only asks the cluster and prints; cli/cluster/view formats.
//
// Read verbs.go first. Tested by cli/pos_cli.
package launches
