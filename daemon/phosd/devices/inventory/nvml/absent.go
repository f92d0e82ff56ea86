//go:build !cgo

package nvml

import "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"

// Open returns an error: this phosd was built without cgo.
func Open(string) (inventory.Source, error) { return nil, inventory.ErrUnsupported }
