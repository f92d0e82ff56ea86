package main

import (
	"fmt"
	"io"

	"github.com/phos-gpu/phos/criu/pager"
	"github.com/phos-gpu/phos/criu/restorer"
	"github.com/phos-gpu/phos/criu/watchdog"
	nvidia "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// roles are the processes that phosd starts of its own executable besides workers, by first
// argument.
var roles = map[string]func(arguments []string) error{
	watchdog.Role: func([]string) error { return watchdog.Serve() },
	restorer.Role: restorer.Serve,
	pager.Role:    func([]string) error { return pager.Serve() },
	nvidia.Role:   serveInventory,
	probeRole:     probeGPUs,
}

// nameProcess sets the name that ps and top show: it would be "exe" for all that phosd starts.
func nameProcess(role string) {
	_ = proc.SetName("phosd-" + role) // cosmetic
}

// runRole runs the role that the arguments name; ok is false if they name none.
func runRole(args []string, stderr io.Writer) (status int, ok bool) {
	if len(args) == 0 || roles[args[0]] == nil {
		return 0, false
	}
	nameProcess(args[0])
	if err := roles[args[0]](args[1:]); err != nil {
		fmt.Fprintf(stderr, "phosd %s: %v\n", args[0], err)
		return exitFailed, true
	}
	return exitDone, true
}
