package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/config"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/worker"
	"github.com/phos-gpu/phos/hijack/abi"
)

// defaultSoftGPUs is what "auto" means on a machine that has none.
const defaultSoftGPUs = "soft:1"

// errUnknownGPUs means that somebody asked for GPUs that do not exist.
var errUnknownGPUs = errors.New("no kind of GPU; say auto, soft:N, cuda or cuda:driver=PATH")

// chooseGPUs makes "auto" the name of a backend: real GPUs where there are any. GPUs that are there and
// cannot be used are an error: nobody wants a software GPU instead without being told.
func chooseGPUs(gpus config.GPUs, log *slog.Logger) (string, error) {
	named, err := cudaName(gpus)
	if gpus.Offer == "cuda" || err != nil {
		return named, err
	}
	if gpus.Offer != "auto" {
		return gpus.Offer, nil
	}
	devices, err := probe(gpus.Driver)
	switch {
	case err == nil:
		log.Info("GPUs found", "count", len(devices), "first", devices[0].Name)
		return named, nil
	case gpus.Driver != "":
		// Whoever names a driver wants its GPUs.
	case errors.Is(err, cudadrv.ErrLibrary), errors.Is(err, abi.NoDevice), errors.Is(err, cudadrv.ErrNoCgo):
		log.Debug("no GPU is used", "why", err)
		return defaultSoftGPUs, nil
	}
	return "", fmt.Errorf("%w; --gpus=%s does without it", err, defaultSoftGPUs)
}

// cudaName names real GPUs by the driver that the settings say. One that is to be opened and is not
// there is an error.
func cudaName(gpus config.GPUs) (string, error) {
	if gpus.Driver == "" {
		return "cuda", nil
	}
	if gpus.Offer == "cuda" || gpus.Offer == "auto" {
		if info, err := os.Stat(gpus.Driver); err != nil {
			return "", fmt.Errorf("gpus.driver: %w", err)
		} else if !info.Mode().IsRegular() {
			return "", fmt.Errorf("gpus.driver: %s is no file", gpus.Driver)
		}
	}
	return "cuda:driver=" + gpus.Driver, nil
}

// realGPUs is the driver of "cuda" and "cuda:driver=PATH".
func realGPUs(name string) (library string, is bool) {
	kind, rest, more := strings.Cut(name, ":")
	if kind != "cuda" {
		return "", false
	}
	library, named := strings.CutPrefix(rest, "driver=")
	return library, !more || named && library != ""
}

// isSoft tells software GPUs, to be parsed.
func isSoft(name string) bool { return name == "soft" || strings.HasPrefix(name, "soft:") }

// driverEnvironment is what a worker with these GPUs has of this process's environment.
func driverEnvironment(name string) []string {
	library, is := realGPUs(name)
	if !is {
		return nil
	}
	return append(environmentOf(library), fixedAddressesVariable+"=1")
}

// environmentOf is what a driver may look at: its own settings, where it lies, and for a library
// that was named, which may be our own libphos.so, the way to the phosd behind it. Never
// LD_PRELOAD, by which the machine's driver would be that library too.
func environmentOf(library string) []string {
	// Code is loaded when a program loads it, and not when it first runs: then the driver's memory
	// looks the same whenever that is done again. Who sets it otherwise has his way.
	kept := []string{"CUDA_MODULE_LOADING=EAGER"}
	if path := libraryPath(library); path != "" {
		kept = append(kept, pathVariable+"="+path)
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "CUDA_") || library != "" && strings.HasPrefix(variable, api.SocketVariable+"=") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// inventory lists the GPUs without opening them here.
func inventory(name string) ([]gpu.DeviceInfo, error) {
	if library, is := realGPUs(name); is {
		return probe(library)
	}
	if !isSoft(name) {
		return nil, fmt.Errorf("%q is %w", name, errUnknownGPUs)
	}
	spec, err := model.Parse(name)
	if err != nil {
		return nil, err
	}
	return spec.Devices(), nil
}

// openBackend is for a worker.
func openBackend(options worker.BackendOptions) (gpu.Backend, error) {
	if library, is := realGPUs(options.Gpus); is {
		return cuda.Open(cuda.Options{Library: library, Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
	}
	if !isSoft(options.Gpus) {
		return nil, fmt.Errorf("%q is %w", options.Gpus, errUnknownGPUs)
	}
	return soft.Open(options.Gpus, soft.Options{Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
}
