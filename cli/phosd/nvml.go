package main

import (
	"os"

	nvidia "github.com/phos-gpu/phos/daemon/inventory"
	"github.com/phos-gpu/phos/daemon/inventory/nvml"
)

// serveInventory asks NVML for phosd, by the library at the path that the arguments name, if any.
func serveInventory(arguments []string) error {
	var path string
	if len(arguments) > 0 {
		path = arguments[0]
	}
	return nvidia.Serve(func() (nvidia.Source, error) { return nvml.Open(path) }, os.Stdin, os.Stdout)
}
