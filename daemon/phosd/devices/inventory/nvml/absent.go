//go:build !cgo

package nvml

import "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"

// Open says that this build cannot.
func Open(string) (inventory.Source, error) { return nil, inventory.ErrUnsupported }
