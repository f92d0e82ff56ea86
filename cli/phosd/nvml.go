package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd/devices"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	nvidia "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory/nvml"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// visibleVariable hides GPUs from processes that use the driver, phosd among them.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// serveInventory is the role that queries NVML. The argument, if any, is the path of the library.
func serveInventory(arguments []string) error {
	var path string
	if len(arguments) > 0 {
		path = arguments[0]
	}
	return nvidia.Serve(func() (nvidia.Source, error) { return nvml.Open(path) }, os.Stdin, os.Stdout)
}

// openWatch returns a Watch on the NVML that belongs to a driver's library; nil if that driver has
// none. policy is nil if every process may open GPUs.
func openWatch(library string, policy *guard.Guard, report func(nvidia.Event)) *nvidia.Watch {
	command := []string{proc.OwnExecutable, nvidia.Role}
	if library != "" {
		beside := filepath.Join(filepath.Dir(library), nvml.Library)
		if _, err := os.Stat(beside); err != nil {
			return nil
		}
		command = append(command, beside)
	}
	watch := nvidia.NewWatch(command, report)
	watch.Enter = func(command *exec.Cmd) {
		command.Env = environmentOf(library)
		if policy != nil {
			policy.Enter(command)
		}
	}
	return watch
}

// openDriver returns the function by which phosd connects to the driver of its real GPUs.
func openDriver(policy *guard.Guard) func(string, func(nvidia.Event)) devices.Driver {
	return func(gpus string, report func(nvidia.Event)) devices.Driver {
		library, ok := realGPUs(gpus)
		if !ok {
			return nil
		}
		if watch := openWatch(library, policy, report); watch != nil {
			return watch
		}
		return nil
	}
}

// probe lists the GPUs of a driver's library, or returns why they cannot be served, and the remedy.
// NVML is queried first: it names what CUDA has only a number for, and answers where CUDA hangs.
func probe(library string) ([]gpu.DeviceInfo, error) {
	found, failed := queryNVML(library)
	refused := nvidia.Join(nvidia.Refusals(found, failed))
	if errors.Is(refused, nvidia.ErrOldDriver) {
		return nil, refused
	}
	devices, err := probeCUDA(library)
	switch {
	case err != nil && (errors.Is(refused, nvidia.ErrNoDriver) || errors.Is(refused, nvidia.ErrNoGPUs)):
		return nil, fmt.Errorf("%w (%w)", refused, err)
	case err != nil && refused != nil:
		// There are GPUs, even if CUDA finds none that it can use.
		return nil, fmt.Errorf("%w (%v)", refused, err) //nolint:errorlint // this must not look like a machine without GPUs
	case err != nil:
		return nil, err
	case failed == nil && os.Getenv(visibleVariable) != "":
		// Problems of hidden GPUs do not matter.
		refused = nvidia.Join(nvidia.Refusals(found.Among(uuids(devices)), nil))
	case failed != nil:
		refused = nil // CUDA works without NVML
	}
	if refused != nil {
		return nil, refused
	}
	return devices, nil
}

// queryNVML queries the NVML that belongs to a driver's library.
func queryNVML(library string) (*nvidia.Inventory, error) {
	watch := openWatch(library, nil, nil)
	if watch == nil {
		return nil, nvidia.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	found, err := watch.Inventory(ctx)
	return found, errors.Join(err, watch.Close())
}

// uuids returns the UUIDs of the devices, in their order.
func uuids(devices []gpu.DeviceInfo) (ids [][16]byte) {
	for _, each := range devices {
		ids = append(ids, each.UUID)
	}
	return ids
}
