package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/gpu/soft/model"
	"github.com/phos-gpu/phos/daemon/worker"
)

// automatic is what "auto" means while there is one backend.
const automatic = "soft:1"

// errNoCUDA means that somebody asked for real GPUs.
var errNoCUDA = errors.New("the cuda backend is not built yet; use soft:N")

// resolve turns what a person says into the name of a backend that exists.
func resolve(gpus string) (string, error) {
	switch {
	case gpus == "auto":
		return automatic, nil
	case gpus == "soft" || strings.HasPrefix(gpus, "soft:"):
		return gpus, nil
	case gpus == "cuda" || strings.HasPrefix(gpus, "cuda:"):
		return "", errNoCUDA
	}
	return "", fmt.Errorf("%q is no kind of GPU; say auto, soft:N or cuda", gpus)
}

// inventory lists the GPUs without opening them.
func inventory(gpus string) ([]gpu.DeviceInfo, error) {
	name, err := resolve(gpus)
	if err != nil {
		return nil, err
	}
	spec, err := model.Parse(name)
	if err != nil {
		return nil, err
	}
	return spec.Devices(), nil
}

// openBackend is for a worker.
func openBackend(options worker.BackendOptions) (gpu.Backend, error) {
	name, err := resolve(options.Gpus)
	if err != nil {
		return nil, err
	}
	return soft.Open(name, soft.Options{Ledger: options.Ledger, Slot: options.Slot, Logger: options.Logger})
}
