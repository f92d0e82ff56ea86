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
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// probeRole lists the GPUs of a driver. phosd itself never opens one: a driver starts threads,
// keeps devices open, and may hang.
const probeRole = "probe-gpus"

// probeTimeout is how long a driver may take to list its GPUs. Without a persistence daemon it
// initialises them first.
const probeTimeout = 60 * time.Second

// findings is what the role writes to its standard output.
type findings struct {
	Devices []gpu.DeviceInfo
	// Failed is why there are no Devices; empty: there are.
	Failed string
	// Missing means that there is no driver.
	Missing bool
	// Absent means that not even its library is installed.
	Absent bool
	Code   abi.Result
}

// probeGPUs is the body of probeRole. It writes findings as JSON to standard output.
func probeGPUs(arguments []string) error {
	var library string
	if len(arguments) > 0 {
		library = arguments[0]
	}
	if err := cuda.TakeOutput(); err != nil { // the driver must not write to the answer
		return err
	}
	answer := os.Stdout
	var found findings
	var err error
	if found.Devices, err = cuda.Probe(library); err != nil {
		found = findings{
			Failed:  err.Error(),
			Missing: errors.Is(err, cudadrv.ErrLibrary) || errors.Is(err, cudadrv.ErrNoCgo),
			Absent:  errors.Is(err, cudadrv.ErrAbsent),
			Code:    gpu.Code(err),
		}
	}
	return json.NewEncoder(answer).Encode(found)
}

// refusal is the error of the role.
type refusal struct{ findings }

func (r *refusal) Error() string { return r.Failed }

// Unwrap returns the kinds of error that callers distinguish.
func (r *refusal) Unwrap() []error {
	switch {
	case r.Absent:
		return []error{cudadrv.ErrLibrary, cudadrv.ErrAbsent}
	case r.Missing:
		return []error{cudadrv.ErrLibrary, r.Code}
	}
	return []error{r.Code}
}

// probeCUDA lists the GPUs of a driver's library in a process of its own.
func probeCUDA(library string) ([]gpu.DeviceInfo, error) {
	if !cudadrv.Built {
		return nil, cudadrv.ErrNoCgo
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, proc.OwnExecutable, probeRole, library)
	command.Env = environmentOf(library)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	command.WaitDelay = time.Second
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the GPU driver has not answered for %v", probeTimeout)
		}
		return nil, fmt.Errorf("query the GPU driver: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var found findings
	if err := json.Unmarshal(stdout.Bytes(), &found); err != nil {
		return nil, fmt.Errorf("decode the list of GPUs: %w", err)
	}
	if found.Failed != "" {
		return nil, &refusal{found}
	}
	return found.Devices, nil
}
