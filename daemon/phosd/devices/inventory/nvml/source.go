//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/phos-gpu/phos/daemon/phosd/devices/inventory"
)

// eventMilliseconds is how often a wait for events checks the context.
const eventMilliseconds = 1000

// Open loads the library at path (empty: by the loader's rules) and connects to the driver.
// inventory.ErrNoDriver is returned when there is no driver; it names what is missing.
func Open(path string) (inventory.Source, error) {
	var options []nvml.LibraryOption
	if path != "" {
		options = append(options, nvml.WithLibraryPath(path))
	} else {
		path = Library
	}
	return open(nvml.New(options...), path)
}

func open(library nvml.Interface, path string) (inventory.Source, error) {
	switch got := library.Init(); got {
	case nvml.SUCCESS:
		s := &source{library: library, known: map[int]inventory.GPU{}}
		// Drivers before 450 lack the symbol, and calling it would end this process.
		s.mig = library.Extensions().LookupSymbol("nvmlDeviceGetMigMode") == nil
		return s, nil
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("%w: %s is not found", inventory.ErrNoDriver, path)
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("%w: the kernel's module is not loaded (modprobe nvidia)", inventory.ErrNoDriver)
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, fmt.Errorf(
			"%w that works: %s and the kernel's module are of two versions, as after an update; restart the machine",
			inventory.ErrNoDriver,
			path,
		)
	case nvml.ERROR_NO_PERMISSION:
		return nil, fmt.Errorf(
			"%w that may be used: the device nodes /dev/nvidia* are closed to this process",
			inventory.ErrNoDriver,
		)
	default:
		return nil, fmt.Errorf("open NVML: %w", got)
	}
}

// source is an open library.
type source struct {
	library nvml.Interface
	// known is, by index, the last identity of each GPU: a lost GPU cannot be queried.
	known map[int]inventory.GPU
	// mig is true if the driver has queries about MIG.
	mig bool
}

// Inventory queries everything.
func (s *source) Inventory() (*inventory.Inventory, error) {
	var found inventory.Inventory
	keep(&found.DriverVersion, s.library.SystemGetDriverVersion)
	keep(&found.CUDAVersion, s.library.SystemGetCudaDriverVersion)
	count, got := s.library.DeviceGetCount()
	if got != nvml.SUCCESS {
		return nil, fmt.Errorf("count the GPUs: %w", got)
	}
	found.GPUs = make([]inventory.GPU, count)
	for i := range found.GPUs {
		found.GPUs[i] = s.gpu(i)
	}
	return &found, nil
}

// gpu never fails: values that the driver does not report are left out, and a GPU that it cannot
// reach is lost.
func (s *source) gpu(index int) inventory.GPU {
	g := inventory.GPU{Index: index}
	if device, got := s.library.DeviceGetHandleByIndex(index); got == nvml.SUCCESS {
		g.BusID = busID(device)
		s.describe(device, &g)
	} else {
		g.Lost = got.Error()
	}
	if g.Lost == "" {
		s.known[index] = g
	} else if before, seen := s.known[index]; seen {
		g.Name, g.UUID, g.BusID = before.Name, before.UUID, before.BusID
	}
	return g
}

// Events reports Xids of all GPUs that support it.
func (s *source) Events(ctx context.Context, report func(inventory.Event)) error {
	set, got := s.library.EventSetCreate()
	if got != nvml.SUCCESS {
		return fmt.Errorf("%w: %w", inventory.ErrNoEvents, got)
	}
	defer func() { _ = set.Free() }() // no event is left in it
	if !s.register(set) {
		return inventory.ErrNoEvents
	}
	for ctx.Err() == nil {
		happened, got := set.Wait(eventMilliseconds)
		switch got {
		case nvml.SUCCESS:
			if happened.EventType&nvml.EventTypeXidCriticalError != 0 {
				report(newEvent(happened))
			}
		case nvml.ERROR_TIMEOUT:
		case nvml.ERROR_GPU_IS_LOST:
			// A GPU is lost; the next inventory says which. Events of the others still come, after a while.
			if !pause(ctx) {
				return nil
			}
		default:
			return fmt.Errorf("wait for events: %w", got)
		}
	}
	return nil
}

// register subscribes to Xids, and reports whether any GPU supports them.
func (s *source) register(set nvml.EventSet) (any bool) {
	count, _ := s.library.DeviceGetCount()
	for i := range count {
		device, got := s.library.DeviceGetHandleByIndex(i)
		if got == nvml.SUCCESS && device.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS {
			any = true
		}
	}
	return any
}

// newEvent converts an event of NVML. Index stays -1 if NVML does not know the GPU.
func newEvent(happened nvml.EventData) inventory.Event {
	e := inventory.Event{Xid: happened.EventData, Index: -1}
	keep(&e.Index, happened.Device.GetIndex)
	keep(&e.UUID, happened.Device.GetUUID)
	e.BusID = busID(happened.Device)
	return e
}

// Close closes the library.
func (s *source) Close() error {
	if got := s.library.Shutdown(); got != nvml.SUCCESS && !errors.Is(got, nvml.ERROR_GPU_IS_LOST) {
		return fmt.Errorf("close NVML: %w", got)
	}
	return nil
}
