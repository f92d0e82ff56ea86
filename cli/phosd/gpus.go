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

// withoutGPUs is what "auto" means on a machine without GPUs.
const withoutGPUs = "soft:1"

// errKind is returned for an unknown backend.
var errKind = errors.New("not a kind of GPU; say auto, soft:N, cuda or cuda:driver=PATH")

// choice is the backend that phosd offers.
type choice struct {
	offer string
	// missing is why a software GPU serves although real ones were wanted; nil: it does not.
	missing error
	// unused is set if the machine has an NVIDIA GPU or a driver all the same.
	unused error
}

// choose turns "auto" into the name of a backend: real GPUs if there are any. GPUs that are present
// and cannot be used are an error: users must not get a software GPU instead without noticing.
func choose(gpus config.GPUs, log *slog.Logger) (choice, error) {
	named, err := byDriver(gpus)
	if gpus.Offer == "cuda" || err != nil {
		return choice{offer: named}, err
	}
	if gpus.Offer != "auto" {
		if blankGPUs(gpus.Offer) {
			log.Warn("blank GPUs serve: they take machine code and compute nothing, so believe no result")
		}
		return choice{offer: gpus.Offer}, nil
	}
	devices, err := probe(gpus.Driver)
	switch {
	case err == nil:
		log.Info("GPUs found", "count", len(devices), "first", devices[0].Name)
		return choice{offer: named}, nil
	case gpus.Driver != "":
		// A driver was configured, so its GPUs are required.
	case errors.Is(err, cudadrv.ErrLibrary), errors.Is(err, abi.NoDevice), errors.Is(err, cudadrv.ErrNoCgo):
		return substitute(err, nvidiaHardware("/"), log), nil
	}
	return choice{}, fmt.Errorf("%w; --gpus=%s uses the software GPU", err, withoutGPUs)
}

// substitute chooses the software GPU because of a driver's error. That is worth a warning if the
// machine has an NVIDIA GPU, or a driver that fails: programs would run a thousand times slower.
func substitute(err error, hardware []string, log *slog.Logger) choice {
	chosen := choice{offer: withoutGPUs, missing: err}
	switch {
	case len(hardware) > 0:
		chosen.unused = fmt.Errorf("the machine has an NVIDIA GPU (%s), but %w", strings.Join(hardware, ", "), err)
	case !errors.Is(err, cudadrv.ErrAbsent) && !errors.Is(err, cudadrv.ErrNoCgo):
		chosen.unused = err
	default:
		log.Info("no GPU found; a software GPU serves", "why", err)
		return chosen
	}
	log.Warn("a software GPU serves, which is a thousand times slower than a real one", "why", chosen.unused)
	return chosen
}

// serves says what phosd serves, for the command that started it.
func (c choice) serves(devices []gpu.DeviceInfo) string {
	kind := "GPU"
	switch {
	case blankGPUs(c.offer):
		kind = "blank GPU"
	case softGPUs(c.offer):
		kind = "software GPU"
	}
	text := fmt.Sprintf("%d %s", len(devices), kind)
	if len(devices) != 1 {
		text += "s"
	}
	switch {
	case c.unused != nil:
		text += " (" + c.unused.Error() + ")"
	case c.missing != nil:
		why, _, _ := strings.Cut(c.missing.Error(), ";") // the remedies are in the log
		text += " (" + why + ")"
	case kind == "blank GPU":
		text += ": machine code is taken and computes nothing"
	case kind == "GPU" && len(devices) > 0:
		text += " (" + devices[0].Name + ")"
	}
	return text
}

// byDriver returns the name of the backend for the configured driver. It is an error if the driver
// will be opened and does not exist.
func byDriver(gpus config.GPUs) (string, error) {
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

// realGPUs returns the driver's library of "cuda" ("") and "cuda:driver=PATH".
func realGPUs(name string) (library string, ok bool) {
	kind, rest, more := strings.Cut(name, ":")
	if kind != "cuda" {
		return "", false
	}
	library, named := strings.CutPrefix(rest, "driver=")
	return library, !more || named && library != ""
}

// softGPUs reports whether a name means software GPUs.
func softGPUs(name string) bool { return name == "soft" || strings.HasPrefix(name, "soft:") }

// blankGPUs reports whether a name means software GPUs whose machine code does nothing.
func blankGPUs(name string) bool {
	spec, err := model.Parse(name)
	return err == nil && spec.Blank
}

// driverEnvironment returns what a worker with these GPUs gets of this process's environment.
func driverEnvironment(name string) []string {
	library, ok := realGPUs(name)
	if !ok {
		return nil
	}
	return append(environmentOf(library), fixedVariable+"=1")
}

// environmentOf returns the environment for a driver: its own settings, the library path, and for a
// configured library, which may be our own libphos.so, the socket of the phosd behind it. Never
// LD_PRELOAD: it would replace the machine's driver by that library.
func environmentOf(library string) []string {
	// Code is loaded when a program loads it, and not when it first runs, so that a restore gets the
	// same memory layout in the driver. A setting in the environment takes precedence.
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
	if !softGPUs(name) {
		return nil, fmt.Errorf("%q is %w", name, errKind)
	}
	spec, err := model.Parse(name)
	if err != nil {
		return nil, err
	}
	return spec.Devices(), nil
}

// openBackend opens the backend of a worker.
func openBackend(options worker.BackendOptions) (gpu.Backend, error) {
	if library, ok := realGPUs(options.Gpus); ok {
		return cuda.Open(cuda.Options{Library: library, Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
	}
	if !softGPUs(options.Gpus) {
		return nil, fmt.Errorf("%q is %w", options.Gpus, errKind)
	}
	return soft.Open(options.Gpus, soft.Options{Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
}
