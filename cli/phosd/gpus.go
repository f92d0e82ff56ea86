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

// defaultSoftGPUs is the meaning of "auto" on a machine without GPUs.
const defaultSoftGPUs = "soft:1"

// errUnknownGPUs is returned for an unknown kind of GPUs.
var errUnknownGPUs = errors.New("not a kind of GPU; choose auto, soft:N, cuda or cuda:driver=PATH")

// chooseGPUs replaces "auto" by the name of a backend: real GPUs if there are any, else a software
// GPU. GPUs that exist but cannot be used are an error; a software GPU must not replace them
// silently.
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
		// A driver that is named must work.
	case errors.Is(err, cudadrv.ErrLibrary), errors.Is(err, abi.NoDevice), errors.Is(err, cudadrv.ErrNoCgo):
		log.Debug("no GPU found", "error", err)
		return defaultSoftGPUs, nil
	}
	return "", fmt.Errorf("%w; --gpus=%s needs no GPU", err, defaultSoftGPUs)
}

// cudaName returns the backend name of real GPUs, with the driver of the settings. A driver that is
// named and needed must exist.
func cudaName(gpus config.GPUs) (string, error) {
	if gpus.Driver == "" {
		return "cuda", nil
	}
	if gpus.Offer == "cuda" || gpus.Offer == "auto" {
		if info, err := os.Stat(gpus.Driver); err != nil {
			return "", fmt.Errorf("gpus.driver: %w", err)
		} else if !info.Mode().IsRegular() {
			return "", fmt.Errorf("gpus.driver: %s is not a file", gpus.Driver)
		}
	}
	return "cuda:driver=" + gpus.Driver, nil
}

// realGPUs returns the driver's path of "cuda:driver=PATH", and an empty path for "cuda".
func realGPUs(name string) (library string, ok bool) {
	kind, rest, hasDriver := strings.Cut(name, ":")
	if kind != "cuda" {
		return "", false
	}
	library, named := strings.CutPrefix(rest, "driver=")
	return library, !hasDriver || named && library != ""
}

// isSoft reports whether the name is that of software GPUs.
func isSoft(name string) bool { return name == "soft" || strings.HasPrefix(name, "soft:") }

// driverEnvironment returns the environment for a worker with these GPUs.
func driverEnvironment(name string) []string {
	library, ok := realGPUs(name)
	if !ok {
		return nil
	}
	return append(environmentOf(library), fixedAddressesVariable+"=1")
}

// environmentOf returns the variables of this process that a driver may see: its own settings and
// its library path. A named library may be our own libphos.so, which also needs the socket of the
// phosd behind it. LD_PRELOAD is never passed: it would replace the machine's driver.
func environmentOf(library string) []string {
	// Code is loaded when the program loads it, not when it first runs, so that a restore repeats the
	// driver's allocations. A value in phosd's environment follows and overrides this one.
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

// inventory lists the GPUs without opening them in this process.
func inventory(name string) ([]gpu.DeviceInfo, error) {
	if library, ok := realGPUs(name); ok {
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

// openBackend opens the backend in a worker.
func openBackend(options worker.BackendOptions) (gpu.Backend, error) {
	if library, ok := realGPUs(options.Gpus); ok {
		return cuda.Open(cuda.Options{Library: library, Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
	}
	if !isSoft(options.Gpus) {
		return nil, fmt.Errorf("%q is %w", options.Gpus, errUnknownGPUs)
	}
	return soft.Open(options.Gpus, soft.Options{Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
}
