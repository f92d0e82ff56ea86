package gpu

import (
	"fmt"
	"math/bits"

	"github.com/phos-gpu/phos/hijack/abi"
)

// What every backend refuses at submission, where an error still belongs to the call.

// Checks are what a backend knows of its own things.
type Checks struct {
	Launch func(w Launch) error
	// Event refuses what is none of the backend's events; op says what for.
	Event func(event Event, op string) error
}

// Work refuses what no stream can do.
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
	case Nothing:
		return nil
	}
	return &Error{Op: "submit work", Code: abi.InvalidValue, Detail: fmt.Sprintf("%T is no work", work)}
}

// Graph makes the works of a graph's nodes a list that updates may change.
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

// LaunchLimits are what a kernel and its device allow.
type LaunchLimits struct {
	Kernel      string
	Grid, Block [3]uint32
	// DeviceThreads and KernelThreads are the most a block can have. Required is the only block that
	// the kernel allows; zero where it does not care.
	DeviceThreads, KernelThreads uint32
	Required                     [3]uint32
	DynamicSharedBytes           uint32
	ParamBytes                   uint32
	// Clusters says that the device runs clusters of several blocks.
	Clusters bool
	// Resident is how many blocks of a cooperative launch fit the device at once.
	Resident func(threadsPerBlock int, dynamicSharedBytes uint64) (uint64, error)
}

// Check refuses what the driver refuses at the call.
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
		return refuse(abi.NotSupported, "clusters of %v blocks, which the device has not", cluster)
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

// within compares three dimensions with their limits.
func within(size, limit [3]uint32) bool {
	return size[0] <= limit[0] && size[1] <= limit[1] && size[2] <= limit[2]
}

// maxBytes bounds extents and pitches, so that sums and products of checked values cannot overflow.
const maxBytes = 1 << 48

// Check refuses boxes whose rows or slices overlap, and sizes that are beyond any memory.
func (w Copy) Check() error {
	high, total := bits.Mul64(w.Extent[0], w.Extent[1])
	high2, total := bits.Mul64(total, w.Extent[2])
	if high|high2 != 0 || total > maxBytes {
		return &Error{
			Op:     "copy",
			Code:   abi.InvalidValue,
			Detail: fmt.Sprintf("extent %v is beyond any memory", w.Extent),
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

// Check refuses patterns that do not exist or do not fit.
func (w Fill) Check() error {
	size := uint64(w.PatternBytes)
	if size != 1 && size != 2 && size != 4 {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: fmt.Sprintf("pattern of %d bytes", size)}
	}
	if w.Columns > maxBytes || w.Rows > maxBytes || w.RowPitch > maxBytes {
		return &Error{Op: "fill", Code: abi.InvalidValue, Detail: "the size is beyond any memory"}
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

// Check refuses a call of nothing.
func (w Call) Check() error {
	if w.Func == nil {
		return &Error{Op: "submit call", Code: abi.InvalidValue, Detail: "no function"}
	}
	return nil
}

// Check is that of a Call.
func (w Tell) Check() error { return Call(w).Check() }

// Check refuses words that do not exist, and waits of an unknown kind.
func (w MemoryOps) Check() error {
	for _, op := range w.Ops {
		if op.Bytes != 4 && op.Bytes != 8 || op.Address%uint64(op.Bytes) != 0 || op.Until > UntilZeroBit {
			return &Error{Op: "submit memory operations", Code: abi.InvalidValue, Detail: fmt.Sprintf("%+v", op)}
		}
	}
	return nil
}
