package gpu

import (
	"encoding/binary"
	"io"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Work is one operation of a stream. The set is closed: Launch, Copy, Fill, MemoryOps, Record,
// Await, Call, Completion and Empty. Values are plain data, so that a captured graph can be kept,
// copied and replayed.
type Work interface{ isWork() }

// Launch runs a kernel.
type Launch struct {
	Function    Function
	Grid, Block [3]uint32
	// SharedBytes is dynamic shared memory per block.
	SharedBytes uint32
	// Params is the packed parameter block; see FunctionInfo.Params for its layout. The stream may
	// keep a reference to it.
	Params      []byte
	Cooperative bool
	// Attributes are launch attributes, such as cluster dimensions; most launches have none.
	// LaunchCooperative is not among them.
	Attributes []abi.LaunchAttribute
}

// Cluster returns the blocks per cluster in each dimension; 1, 1, 1 without a cluster attribute.
func (l *Launch) Cluster() [3]uint32 {
	for _, a := range l.Attributes {
		if a.ID == abi.LaunchCluster {
			var size [3]uint32
			for i := range size {
				size[i] = max(binary.LittleEndian.Uint32(a.Value[4*i:]), 1)
			}
			return size
		}
	}
	return [3]uint32{1, 1, 1}
}

// Copy copies a box of bytes: Extent[0] bytes per row, Extent[1] rows, Extent[2] slices. A linear
// copy has Extent {n, 1, 1}.
type Copy struct {
	Dst, Src Place
	Extent   [3]uint64
}

// Place is one end of a copy. Offsets inside pitched memory are already added to Address.
type Place struct {
	// Host is nil for device memory, and for arena memory registered with MapHost, which has device
	// addresses. Otherwise it is the program's memory, and Address is the offset passed to it.
	Host    HostMemory
	Address uint64
	// RowPitch and SlicePitch are in bytes; ignored if the extent does not need them.
	RowPitch, SlicePitch uint64
}

// HostMemory is memory that is not mapped in this process: the program's own pages, or bytes passed
// with a call. A copy of at most EarlyBytes may read it at submission, as the driver does for
// pageable memory. An error of HostMemory ends the copy but does not poison the context, because it
// is not a fault of the device. An implementation that needs the error keeps it.
type HostMemory interface {
	io.ReaderAt
	io.WriterAt
}

// EarlyBytes is the maximum size of a copy that may read host memory at submission.
const EarlyBytes = 64 << 10

// Fill repeats a pattern of 1, 2 or 4 bytes: Columns patterns a row, Rows rows RowPitch bytes
// apart.
type Fill struct {
	Address, RowPitch uint64
	Pattern           uint32
	PatternBytes      uint8
	Columns, Rows     uint64
}

// MemoryOps writes words of device memory, or waits until a word has a value, one operation after
// the other. Writes of such a word by a kernel, a copy or the CPU are visible to it without
// synchronization.
type MemoryOps struct{ Ops []MemoryOp }

// MemoryOp is one operation of MemoryOps.
type MemoryOp struct {
	// Wait selects waiting; otherwise the operation writes.
	Wait bool
	// Until is the comparison of a wait.
	Until Comparison
	// Bytes is 4 or 8; Address is a multiple of it.
	Bytes          uint8
	Address, Value uint64
}

// Comparison is a CUstreamWaitValue_flags number.
type Comparison uint8

// Comparisons of a word with a value.
const (
	UntilReached Comparison = 0 // the word minus the value, as a signed number, is not negative
	UntilEqual   Comparison = 1
	UntilAnyBit  Comparison = 2 // word & value is not zero
	UntilZeroBit Comparison = 3 // ^(word | value) is not zero
)

// Met reports whether a word satisfies the comparison.
func (o *MemoryOp) Met(word uint64) bool {
	switch o.Until {
	case UntilReached:
		if o.Bytes == 4 {
			return int32(uint32(word)-uint32(o.Value)) >= 0
		}
		return int64(word-o.Value) >= 0
	case UntilEqual:
		return word == o.Value
	case UntilAnyBit:
		return word&o.Value != 0
	case UntilZeroBit:
		if o.Bytes == 4 {
			return ^uint32(word|o.Value) != 0
		}
		return ^(word | o.Value) != 0
	}
	return false
}

// Record records an event: the event is reached when everything before it in the stream is done.
type Record struct{ Event Event }

// Await blocks the stream until the recording that the event had at submission is reached.
type Await struct{ Event Event }

// Call runs a function of the session in stream order; the stream waits for it to return. It runs
// even if the context is poisoned or closing, so that a session can always release its waiters. It
// must not wait for its own stream.
type Call struct{ Func func() }

// Completion runs a function of the session once everything before it in the stream is done. Later
// work does not wait for it, and may even finish first. The functions of a stream run one at a
// time, in order, and before a later Call. Synchronize waits for them, and a stream with pending
// functions is not idle. Like Call, it also runs in a poisoned context. A caller that queries the
// stream may run Func, so Func must not query the stream itself.
type Completion struct{ Func func() }

// RunsAlways reports whether work runs even if the context is poisoned or closing.
func RunsAlways(work Work) bool {
	switch work.(type) {
	case Call, Completion:
		return true
	}
	return false
}

// Empty is an empty node, which joins dependencies in a graph.
type Empty struct{}

func (Launch) isWork()     {}
func (Copy) isWork()       {}
func (Fill) isWork()       {}
func (MemoryOps) isWork()  {}
func (Record) isWork()     {}
func (Await) isWork()      {}
func (Call) isWork()       {}
func (Completion) isWork() {}
func (Empty) isWork()      {}
