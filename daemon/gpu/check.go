package gpu

import (
	"fmt"
	"math/bits"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Checks that every backend makes in Submit, while the error can still be returned by the call.

// Checks are the backend-specific parts of the checks in Submit.
type Checks struct {
	Launch func(w Launch) error
	// Event refuses events of other backends; op names the operation in the error.
	Event func(event Event, op string) error
}

// NewChecks returns the checks of a backend. own converts an event to the backend's type, or
// returns why that is not possible.
func NewChecks[E any](launch func(Launch) error, own func(event Event, op string) (E, error)) Checks {
	return Checks{Launch: launch, Event: func(event Event, op string) error {
		_, err := own(event, op)
		return err
	}}
}

// Work returns an error for work that no stream can run.
func (c Checks) Work(work Work) error {
	switch work := work.(type) {
	case Launch:
		return c.Launch(work)
	case Record:
		return c.Event(work.Event, "record event")
	case Await:
		return c.Event(work.Event, "wait for event")
	case interface{ Check() error }:
		return work.Check()
	case Empty:
		return nil
	}
	return &Error{Op: "submit work", Code: abi.InvalidValue, Detail: fmt.Sprintf("%T is not a kind of work", work)}
}

// Graph checks the work of all nodes and returns it as a list that updates may change.
func (c Checks) Graph(graph *Graph) ([]Work, error) {
	works := make([]Work, len(graph.Nodes))
	for i, node := range graph.Nodes {
		if err := c.Work(node.Work); err != nil {
			return nil, fmt.Errorf("graph node %d: %w", i, err)
		}
		works[i] = node.Work
	}
	return works, nil
}

// LaunchLimits are the limits of a kernel and its device.
type LaunchLimits struct {
	Kernel      string
	Grid, Block [3]uint32
	// DeviceThreads and KernelThreads are the maximum threads per block. Required is the only block
	// shape that the kernel accepts; zero if it accepts any.
	DeviceThreads, KernelThreads uint32
	Required                     [3]uint32
	DynamicSharedBytes           uint32
	ParamBytes                   uint32
	// Clusters is set if the device runs clusters of several blocks.
	Clusters bool
	// Resident returns how many blocks of a cooperative launch fit on the device at once.
	Resident func(threadsPerBlock int, dynamicSharedBytes uint64) (uint64, error)
}

// Check returns an error for a launch that the driver would refuse.
func (w Launch) Check(limit LaunchLimits) error {
	refuse := func(code abi.Result, format string, args ...any) error {
		return &Error{Op: "launch " + limit.Kernel, Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	blocks := uint64(w.Grid[0]) * uint64(w.Grid[1]) * uint64(w.Grid[2])
	threads := uint64(w.Block[0]) * uint64(w.Block[1]) * uint64(w.Block[2])
	required := limit.Required
	switch {
	case blocks == 0 || !within(w.Grid, limit.Grid):
		return refuse(abi.InvalidValue, "grid %v", w.Grid)
	case threads == 0 || !within(w.Block, limit.Block) || threads > uint64(limit.DeviceThreads):
		return refuse(abi.InvalidValue, "block %v", w.Block)
	case threads > uint64(limit.KernelThreads):
		return refuse(abi.InvalidValue, "%d threads, the kernel allows %d", threads, limit.KernelThreads)
	case required[0] != 0 && w.Block != [3]uint32{required[0], max(required[1], 1), max(required[2], 1)}:
		return refuse(abi.InvalidValue, "block %v, the kernel requires %v", w.Block, required)
	case w.SharedBytes > limit.DynamicSharedBytes:
		return refuse(
			abi.InvalidValue,
			"%d bytes of dynamic shared memory, at most %d",
			w.SharedBytes,
			limit.DynamicSharedBytes,
		)
	case uint64(len(w.Params)) < uint64(limit.ParamBytes):
		return refuse(abi.InvalidValue, "%d bytes of parameters, not %d", len(w.Params), limit.ParamBytes)
	}
	if cluster := w.Cluster(); cluster != [3]uint32{1, 1, 1} && !limit.Clusters {
		return refuse(abi.NotSupported, "clusters of %v blocks are not supported by the device", cluster)
	}
	if w.Cooperative {
		fit, err := limit.Resident(int(threads), uint64(w.SharedBytes))
		if err != nil {
			return fmt.Errorf("launch %s: %w", limit.Kernel, err)
		}
		if blocks > fit {
			return refuse(abi.CooperativeLaunchTooLarge, "%d blocks, %d fit", blocks, fit)
		}
	}
	return nil
}

// within reports whether no dimension exceeds its limit.
func within(size, limit [3]uint32) bool {
	return size[0] <= limit[0] && size[1] <= limit[1] && size[2] <= limit[2]
}

// maxBytes is an upper bound for extents and pitches, so that sums and products of checked values
// cannot overflow.
const maxBytes = 1 << 48

// Check refuses copies whose rows or slices overlap, and sizes beyond any memory.
func (w Copy) Check() error {
	high, total := bits.Mul64(w.Extent[0], w.Extent[1])
	high2, total := bits.Mul64(total, w.Extent[2])
	if high|high2 != 0 || total > maxBytes {
		return &Error{
			Op:     "copy",
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("extent %v is too large", w.Extent),
		}
	}
	if total == 0 || w.Extent[1] == 1 && w.Extent[2] == 1 {
		return nil
	}
	for _, p := range [...]Place{w.Dst, w.Src} {
		if w.Extent[1] > 1 && p.RowPitch < w.Extent[0] || p.RowPitch > maxBytes || p.SlicePitch > maxBytes ||
			w.Extent[2] > 1 && p.SlicePitch < (w.Extent[1]-1)*p.RowPitch+w.Extent[0] {
			return &Error{
				Op: "copy", Code: abi.InvalidValue,
				Detail: fmt.Sprintf("pitches %d, %d are too small for extent %v", p.RowPitch, p.SlicePitch, w.Extent),
			}
		}
	}
	return nil
}

// Check refuses patterns of an invalid size or alignment, and pitches that make rows overlap.
func (w Fill) Check() error {
	size := uint64(w.PatternBytes)
	if size != 1 && size != 2 && size != 4 {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: fmt.Sprintf("pattern of %d bytes", size)}
	}
	if w.Columns > maxBytes || w.Rows > maxBytes || w.RowPitch > maxBytes {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: "the size is too large"}
	}
	if w.Address%size != 0 || w.Rows > 1 && (w.RowPitch < w.Columns*size || w.RowPitch%size != 0) {
		return &Error{
			Op: "fill", Code: abi.InvalidValue,
			Detail: fmt.Sprintf(
				"address %#x or pitch %d does not fit patterns of %d bytes",
				w.Address,
				w.RowPitch,
				size,
			),
		}
	}
	return nil
}

// Check refuses a call without a function.
func (w Call) Check() error {
	if w.Func == nil {
		return &Error{Op: "submit call", Code: abi.InvalidValue, Detail: "no function"}
	}
	return nil
}

// Check refuses a Completion without a function.
func (w Completion) Check() error { return Call(w).Check() }

// Check refuses words of an invalid size or alignment, and unknown comparisons.
func (w MemoryOps) Check() error {
	for _, op := range w.Ops {
		if op.Bytes != 4 && op.Bytes != 8 || op.Address%uint64(op.Bytes) != 0 || op.Until > UntilZeroBit {
			return &Error{Op: "submit memory operations", Code: abi.InvalidValue, Detail: fmt.Sprintf("%+v", op)}
		}
	}
	return nil
}
