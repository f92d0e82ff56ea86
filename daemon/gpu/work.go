package gpu

import (
	"encoding/binary"
	"io"

	"github.com/phos-gpu/phos/hijack/abi"
)

// Work is one thing a stream can do. The set is closed: Launch, Copy, Fill, MemoryOps, Record,
// Await, Call, Tell and Nothing. Values are plain data, so that a captured graph can be kept,
// copied and replayed.
type Work interface{ isWork() }

// Launch runs a kernel.
type Launch struct {
	Function    Function
	Grid, Block [3]uint32
	// SharedBytes is dynamic shared memory per block.
	SharedBytes uint32
	// Params is the packed parameter block; see FunctionInfo.Params for its layout. The stream may
	// keep it.
	Params      []byte
	Cooperative bool
	// Attributes ask for more, such as clusters of blocks; most launches have none. LaunchCooperative
	// is not among them.
	Attributes []abi.LaunchAttribute
}

// Cluster is how many blocks make a cluster, by dimension; 1, 1, 1 where no attribute says.
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

// Copy moves a box of bytes: Extent[0] bytes a row, Extent[1] rows, Extent[2] slices. A linear copy
// has Extent {n, 1, 1}.
type Copy struct {
	Dst, Src Place
	Extent   [3]uint64
}

// Place is one end of a copy. Offsets inside pitched memory are already added to Address.
type Place struct {
	// Host is nil for device memory (and for arena memory registered with MapHost, which has device
	// addresses). Else it is the program's memory; Address is the offset passed to it.
	Host    HostMemory
	Address uint64
	// RowPitch and SlicePitch are in bytes; ignored where the extent does not need them.
	RowPitch, SlicePitch uint64
}

// HostMemory is memory that is not mapped here: the program's own pages, or bytes that came with a
// call. What a copy of at most EarlyBytes reads may be read when it is submitted, as the driver
// does with memory that is not pinned. An error of it ends the copy but does not poison the
// context, as it is no fault of the device: who needs to know, remembers it in the HostMemory.
type HostMemory interface {
	io.ReaderAt
	io.WriterAt
}

// EarlyBytes is the size of the largest copy that may read host memory when it is submitted.
const EarlyBytes = 64 << 10

// Fill repeats a pattern of 1, 2 or 4 bytes: Columns patterns a row, Rows rows RowPitch bytes
// apart.
type Fill struct {
	Address, RowPitch uint64
	Pattern           uint32
	PatternBytes      uint8
	Columns, Rows     uint64
}

// MemoryOps writes words of device memory, and waits until words have a value, one after the other.
// Whoever else writes such a word, a kernel, a copy or the program's processor, is seen without
// further ado.
type MemoryOps struct{ Ops []MemoryOp }

// MemoryOp is one step of MemoryOps.
type MemoryOp struct {
	// Wait says that the step waits; else it writes.
	Wait bool
	// Until is what a step that waits compares by.
	Until Comparison
	// Bytes is 4 or 8; Address is a multiple of it.
	Bytes          uint8
	Address, Value uint64
}

// Comparison is a CUstreamWaitValue_flags number.
type Comparison uint8

// Comparisons of a word with a value.
const (
	UntilReached Comparison = 0 // the word minus the value is not negative, as a signed number
	UntilEqual   Comparison = 1
	UntilAnyBit  Comparison = 2 // word and value have a bit in common
	UntilZeroBit Comparison = 3 // a bit is in neither
)

// Met reports whether a word has what a step waits for.
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

// Record marks an event once everything before it in the stream is done.
type Record struct{ Event Event }

// Await holds the stream until what the event had recorded at submission is done.
type Await struct{ Event Event }

// Call runs a function of the session in stream order; the stream waits for it to return. It runs
// even when the context is poisoned or closing, so that a session can always release what waits for
// it. It must not wait for the stream it is in.
type Call struct{ Func func() }

// Tell runs a function of the session once everything before it in the stream is done, but what
// comes after it need not wait: it may run meanwhile, and may be done first. Those of a stream run
// one after the other, in order, and before a Call that comes later. Synchronize waits for them,
// and a stream is not idle while one is left. Otherwise it is as Call. Func may be run by who asks
// for the stream's state, and must not ask for it itself.
type Tell struct{ Func func() }

// Always reports whether work is run even when the context is poisoned or closing.
func Always(work Work) bool {
	switch work.(type) {
	case Call, Tell:
		return true
	}
	return false
}

// Nothing is an empty node, for joining dependencies in a graph.
type Nothing struct{}

func (Launch) isWork()    {}
func (Copy) isWork()      {}
func (Fill) isWork()      {}
func (MemoryOps) isWork() {}
func (Record) isWork()    {}
func (Await) isWork()     {}
func (Call) isWork()      {}
func (Tell) isWork()      {}
func (Nothing) isWork()   {}
