package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/hijack/abi"
)

// probeRole asks a driver for its GPUs. phosd itself never opens one: a driver starts threads,
// keeps devices open, and may hang.
const probeRole = "probe-gpus"

// probeTimeout is how long a driver has to say what GPUs there are. Without a persistence daemon
// it initialises them first.
const probeTimeout = 60 * time.Second

// probeResult is what the role writes to its standard output.
type probeResult struct {
	Devices []gpu.DeviceInfo
	// Failed is empty when Devices holds.
	Failed string
	// Missing: there is no driver, as opposed to one that cannot be used.
	Missing bool
	Code    abi.Result
}

func probeGPUs(arguments []string) error {
	var library string
	if len(arguments) > 0 {
		library = arguments[0]
	}
	if err := cuda.TakeOutput(); err != nil { // what the driver writes is no answer
		return err
	}
	answer := os.Stdout
	var found probeResult
	var err error
	if found.Devices, err = cuda.Probe(library); err != nil {
		found = probeResult{
			Failed:  err.Error(),
			Missing: errors.Is(err, cudadrv.ErrLibrary) || errors.Is(err, cudadrv.ErrNoCgo),
			Code:    gpu.Code(err),
		}
	}
	return json.NewEncoder(answer).Encode(found)
}

// probeError is what the role says went wrong.
type probeError struct{ probeResult }

func (r *probeError) Error() string { return r.Failed }

// Unwrap is the kind of error, as far as who asks wants to know.
func (r *probeError) Unwrap() error {
	if r.Missing {
		return cudadrv.ErrLibrary
	}
	return r.Code
}

// probeCUDA asks the driver of a library, in a process of its own.
func probeCUDA(library string) ([]gpu.DeviceInfo, error) {
	if !cudadrv.Built {
		return nil, cudadrv.ErrNoCgo
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "/proc/self/exe", probeRole, library)
	command.Env = environmentOf(library)
	var said, complained bytes.Buffer
	command.Stdout, command.Stderr = &said, &complained
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the GPU driver has not answered for %v", probeTimeout)
		}
		return nil, fmt.Errorf("ask the GPU driver: %w: %s", err, bytes.TrimSpace(complained.Bytes()))
	}
	var found probeResult
	if err := json.Unmarshal(said.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("what the GPU driver was said to have: %w", err)
	}
	if found.Failed != "" {
		return nil, &probeError{found}
	}
	return found.Devices, nil
}
