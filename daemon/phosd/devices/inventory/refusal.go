package inventory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The kinds of a Refusal.
var (
	ErrOldDriver   = errors.New("the driver is too old")
	ErrMIG         = errors.New("the GPU is in MIG mode")
	ErrComputeMode = errors.New("the GPU's compute mode keeps programs out")
	ErrLost        = errors.New("the GPU is lost")
	ErrNoGPUs      = errors.New("the driver knows no GPU")
)

// oldestCUDA is the oldest CUDA whose drivers can map memory as phos needs and load what it
// compiles (12.0); oldestDriver is the first driver that serves it.
const (
	oldestCUDA   = 12000
	oldestDriver = 525
)

// Refusal is why a GPU, or all GPUs of a machine, cannot be served.
type Refusal struct {
	// GPU is the GPU's index, or -1 for all GPUs.
	GPU    int
	Reason string
	// Remedy is what to do next.
	Remedy string
	Kind   error
}

// Error returns reason and remedy.
func (r *Refusal) Error() string { return r.Reason + "; " + r.Remedy }

// Unwrap returns the kind.
func (r *Refusal) Unwrap() error { return r.Kind }

// Refusals lists what keeps phosd from serving the GPUs of an inventory. failed is why there is no
// inventory. Only ErrNoDriver is a refusal then: the driver may serve CUDA without NVML.
func Refusals(found *Inventory, failed error) (refused []*Refusal) {
	switch {
	case errors.Is(failed, ErrNoDriver):
		return []*Refusal{{
			GPU: -1, Kind: ErrNoDriver, Reason: failed.Error(),
			Remedy: "install NVIDIA's driver and see that nvidia-smi lists the GPUs, or use the software GPU: pos_cli " +
				"--start --gpus soft:1",
		}}
	case failed != nil || found == nil:
		return nil
	}
	if old := found.tooOld(); old != nil {
		return []*Refusal{old}
	}
	if len(found.GPUs) == 0 {
		return []*Refusal{{
			GPU: -1, Kind: ErrNoGPUs, Reason: fmt.Sprintf("driver %s knows no GPU", found.DriverVersion),
			Remedy: "see what nvidia-smi and the kernel's log say (dmesg | grep NVRM); in a container, pass the GPUs in",
		}}
	}
	for i := range found.GPUs {
		if r := found.GPUs[i].refusal(); r != nil {
			refused = append(refused, r)
		}
	}
	return refused
}

// tooOld checks the CUDA version, or the driver's version if NVML does not report it.
func (v *Inventory) tooOld() *Refusal {
	branch, err := strconv.Atoi(strings.SplitN(v.DriverVersion, ".", 2)[0])
	switch {
	case v.CUDAVersion >= oldestCUDA || v.CUDAVersion == 0 && (err != nil || branch >= oldestDriver):
		return nil
	case v.CUDAVersion == 0:
		return oldDriver(fmt.Sprintf("driver %s", v.DriverVersion))
	}
	return oldDriver(fmt.Sprintf("driver %s serves CUDA %s", v.DriverVersion, CUDAText(v.CUDAVersion)))
}

// oldDriver returns the refusal of a machine whose driver lacks calls that phos needs.
func oldDriver(what string) *Refusal {
	return &Refusal{
		GPU: -1, Kind: ErrOldDriver,
		Reason: fmt.Sprintf(
			"%s; phos places GPU memory by calls (cuMemAddressReserve, cuMemMap and theirs) as CUDA %s has them",
			what,
			CUDAText(oldestCUDA),
		),
		Remedy: fmt.Sprintf("install a driver of %d or newer", oldestDriver),
	}
}

// refusal returns why the GPU cannot be served, or nil.
func (g *GPU) refusal() *Refusal {
	refuse := func(kind error, reason, remedy string) *Refusal {
		return &Refusal{GPU: g.Index, Kind: kind, Reason: g.String() + " " + reason, Remedy: remedy}
	}
	switch {
	case g.Lost != "":
		return refuse(
			ErrLost,
			"is lost: "+g.Lost,
			"reset it (nvidia-smi --gpu-reset) or restart the machine; look for Xid in the kernel's log",
		)
	case g.MIG != nil && *g.MIG:
		return refuse(ErrMIG, "is in MIG mode, in which its memory cannot be saved whole",
			fmt.Sprintf("switch that off: nvidia-smi -i %d -mig 0", g.Index))
	case g.ComputeMode == ModeProhibited:
		return refuse(ErrComputeMode, "is in compute mode Prohibited, in which no program may use it",
			fmt.Sprintf("allow it: nvidia-smi -i %d -c DEFAULT", g.Index))
	case g.ComputeMode == ModeExclusiveProcess || g.ComputeMode == ModeExclusiveThread:
		return refuse(
			ErrComputeMode,
			fmt.Sprintf(
				"is in compute mode %s, in which one program at a time may use it; phos has a worker for each",
				g.ComputeMode,
			),
			fmt.Sprintf(
				"allow more: nvidia-smi -i %d -c DEFAULT (phosd keeps others out by [gpus] exclusive)",
				g.Index,
			),
		)
	}
	return nil
}

// Join returns one error for all refusals; nil for none.
func Join(refused []*Refusal) error {
	var all []error
	for _, r := range refused {
		all = append(all, r)
	}
	return errors.Join(all...)
}
