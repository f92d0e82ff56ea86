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

// probeRole is the role that queries a CUDA driver. phosd itself never opens a driver, because a
// driver starts threads, keeps devices open, and may hang.
const probeRole = "probe-gpus"

// probeTimeout is how long a driver may take to list its GPUs. Without a persistence daemon it
// initialises them first.
const probeTimeout = 60 * time.Second

// probeResult is what the role prints.
type probeResult struct {
	Devices []gpu.DeviceInfo
	// Failed is the error's text; empty if Devices is valid.
	Failed string
	// Missing is set if there is no driver, as opposed to a driver that cannot be used.
	Missing bool
	Code    abi.Result
}

func probeGPUs(arguments []string) error {
	var library string
	if len(arguments) > 0 {
		library = arguments[0]
	}
	if err := cuda.TakeOutput(); err != nil { // the driver's output must not mix with the answer
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

// probeError is the error of the role.
type probeError struct{ probeResult }

func (r *probeError) Error() string { return r.Failed }

// Unwrap returns cudadrv.ErrLibrary or the driver's code, for errors.Is.
func (r *probeError) Unwrap() error {
	if r.Missing {
		return cudadrv.ErrLibrary
	}
	return r.Code
}

// probeCUDA queries the driver of a library, in a process of its own.
func probeCUDA(library string) ([]gpu.DeviceInfo, error) {
	if !cudadrv.Built {
		return nil, cudadrv.ErrNoCgo
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "/proc/self/exe", probeRole, library)
	command.Env = environmentOf(library)
	var output, errorOutput bytes.Buffer
	command.Stdout, command.Stderr = &output, &errorOutput
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the GPU driver did not answer within %v", probeTimeout)
		}
		return nil, fmt.Errorf("query the GPU driver: %w: %s", err, bytes.TrimSpace(errorOutput.Bytes()))
	}
	var found probeResult
	if err := json.Unmarshal(output.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("decode the list of GPUs: %w", err)
	}
	if found.Failed != "" {
		return nil, &probeError{found}
	}
	return found.Devices, nil
}
