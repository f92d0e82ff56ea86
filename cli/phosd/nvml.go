package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/phosd"
	"github.com/phos-gpu/phos/daemon/phosd/devices/guard"
	nvidia "github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory/nvml"
)

// visibleVariable hides GPUs from CUDA programs, including phosd.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// serveInventory is the role that queries NVML, by the library at the path in the arguments, if
// any.
func serveInventory(arguments []string) error {
	var path string
	if len(arguments) > 0 {
		path = arguments[0]
	}
	return nvidia.Serve(func() (nvidia.Source, error) { return nvml.Open(path) }, os.Stdin, os.Stdout)
}

// openWatch starts the role that queries the NVML of a driver's library. It returns nil if that
// driver has no NVML. deviceGuard is nil if GPUs are open to all processes.
func openWatch(library string, deviceGuard *guard.Guard, onEvent func(nvidia.Event)) *nvidia.Watch {
	command := []string{"/proc/self/exe", nvidia.Role}
	if library != "" {
		beside := filepath.Join(filepath.Dir(library), nvml.Library)
		if _, err := os.Stat(beside); err != nil {
			return nil
		}
		command = append(command, beside)
	}
	watch := nvidia.NewWatch(command, onEvent)
	watch.Enter = func(command *exec.Cmd) {
		command.Env = environmentOf(library)
		if deviceGuard != nil {
			deviceGuard.Enter(command)
		}
	}
	return watch
}

// openDriver returns the function by which phosd watches its real GPUs.
func openDriver(deviceGuard *guard.Guard) func(string, func(nvidia.Event)) phosd.Driver {
	return func(gpus string, onEvent func(nvidia.Event)) phosd.Driver {
		library, ok := realGPUs(gpus)
		if !ok {
			return nil
		}
		if watch := openWatch(library, deviceGuard, onEvent); watch != nil {
			return watch
		}
		return nil
	}
}

// probe lists the GPUs of a driver's library, or returns why they cannot be served and what to do.
// NVML is queried first: it has texts where CUDA has only error numbers, and answers where CUDA
// hangs.
func probe(library string) ([]gpu.DeviceInfo, error) {
	found, nvmlErr := askNVML(library)
	refused := nvidia.Join(nvidia.Refusals(found, nvmlErr))
	if errors.Is(refused, nvidia.ErrOldDriver) {
		return nil, refused
	}
	devices, err := probeCUDA(library)
	switch {
	case err != nil && (errors.Is(refused, nvidia.ErrNoDriver) || errors.Is(refused, nvidia.ErrNoGPUs)):
		return nil, fmt.Errorf("%w (%w)", refused, err)
	case err != nil && refused != nil:
		// There are GPUs, even if CUDA cannot use any.
		return nil, fmt.Errorf("%w (%v)", refused, err) //nolint:errorlint // must not match abi.NoDevice
	case err != nil:
		return nil, err
	case nvmlErr == nil && os.Getenv(visibleVariable) != "":
		// Errors of GPUs that are hidden from phosd do not matter.
		refused = nvidia.Join(nvidia.Refusals(found.Among(uuids(devices)), nil))
	case nvmlErr != nil:
		refused = nil // CUDA works without NVML
	}
	if refused != nil {
		return nil, refused
	}
	return devices, nil
}

// askNVML queries NVML once.
func askNVML(library string) (*nvidia.Inventory, error) {
	watch := openWatch(library, nil, nil)
	if watch == nil {
		return nil, nvidia.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	found, err := watch.Inventory(ctx)
	return found, errors.Join(err, watch.Close())
}

func uuids(devices []gpu.DeviceInfo) (ids [][16]byte) {
	for _, each := range devices {
		ids = append(ids, each.UUID)
	}
	return ids
}
