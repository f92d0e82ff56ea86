// Package view shows launches, nodes and users: as tables for people, and as JSON with names that
// stay. It asks nothing of the cluster. Read launch.go first; json.go has the JSON.
// Tested by cli/pos_cli.
package view
