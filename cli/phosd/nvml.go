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
)

// visibleVariable keeps GPUs from the driver's programs, phosd among them.
const visibleVariable = "CUDA_VISIBLE_DEVICES"

// serveInventory asks NVML for phosd, by the library at the path that the arguments name, if any.
func serveInventory(arguments []string) error {
	var path string
	if len(arguments) > 0 {
		path = arguments[0]
	}
	return nvidia.Serve(func() (nvidia.Source, error) { return nvml.Open(path) }, os.Stdin, os.Stdout)
}

// openWatch asks the NVML that belongs to a driver's library, by the role; nil: that driver comes
// without one. keep is nil where GPUs are open to all.
func openWatch(library string, keep *guard.Guard, tell func(nvidia.Event)) *nvidia.Watch {
	command := []string{"/proc/self/exe", nvidia.Role}
	if library != "" {
		beside := filepath.Join(filepath.Dir(library), nvml.Library)
		if _, err := os.Stat(beside); err != nil {
			return nil
		}
		command = append(command, beside)
	}
	watch := nvidia.NewWatch(command, tell)
	watch.Enter = func(command *exec.Cmd) {
		command.Env = environmentOf(library)
		if keep != nil {
			keep.Enter(command)
		}
	}
	return watch
}

// openDriver is for phosd, which is told what goes wrong with its real GPUs.
func openDriver(keep *guard.Guard) func(string, func(nvidia.Event)) devices.Driver {
	return func(gpus string, tell func(nvidia.Event)) devices.Driver {
		library, is := realGPUs(gpus)
		if !is {
			return nil
		}
		if watch := openWatch(library, keep, tell); watch != nil {
			return watch
		}
		return nil
	}
}

// probe lists the GPUs of a driver's library, or says what keeps them from being served, and what
// to do. NVML is asked first: it names what CUDA has only a number for, and answers where CUDA
// hangs.
func probe(library string) ([]gpu.DeviceInfo, error) {
	found, asking := askNVML(library)
	refused := nvidia.Join(nvidia.Refusals(found, asking))
	if errors.Is(refused, nvidia.ErrOldDriver) {
		return nil, refused
	}
	devices, err := probeCUDA(library)
	switch {
	case err != nil && (errors.Is(refused, nvidia.ErrNoDriver) || errors.Is(refused, nvidia.ErrNoGPUs)):
		return nil, fmt.Errorf("%w (%w)", refused, err)
	case err != nil && refused != nil:
		// GPUs are there, even if CUDA finds none that it can use.
		return nil, fmt.Errorf("%w (%v)", refused, err) //nolint:errorlint // not to be taken for a machine without GPUs
	case err != nil:
		return nil, err
	case asking == nil && os.Getenv(visibleVariable) != "":
		// What is wrong with GPUs that phosd does not get is none of its business.
		refused = nvidia.Join(nvidia.Refusals(found.Among(uuids(devices)), nil))
	case asking != nil:
		refused = nil // CUDA is there without NVML
	}
	if refused != nil {
		return nil, refused
	}
	return devices, nil
}

// askNVML is nil for a library without one.
func askNVML(library string) (*nvidia.Inventory, error) {
	watch := openWatch(library, nil, nil)
	if watch == nil {
		return nil, nvidia.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(context.Background(), probePatience)
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
