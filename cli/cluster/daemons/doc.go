// Package daemons is --start, --stop and --status of pos_cli for the targets cluster and agent:
// controller and agent of this machine. cli/background starts processes.
//
// Read start.go. Tested by cli/pos_cli.
package daemons
