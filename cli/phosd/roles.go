package main

import (
	"fmt"
	"io"

	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/criu/watchdog"
	nvidia "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

// roles are the processes that phosd starts of its own executable besides workers, by first
// argument.
var roles = map[string]func(arguments []string) error{
	watchdog.Role: func([]string) error { return watchdog.Serve() },
	restorer.Role: restorer.Serve,
	nvidia.Role:   serveInventory,
	probeRole:     probeGPUs,
}

// runRole runs the role that the arguments name; ok is false if they name none.
func runRole(args []string, stderr io.Writer) (status int, ok bool) {
	if len(args) == 0 || roles[args[0]] == nil {
		return 0, false
	}
	if err := roles[args[0]](args[1:]); err != nil {
		fmt.Fprintf(stderr, "phosd %s: %v\n", args[0], err)
		return exitFailed, true
	}
	return exitDone, true
}
