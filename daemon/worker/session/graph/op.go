package graph

import (
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Type is a CUgraphNodeType.
type Type uint32

// Supported node types. The driver's other types are refused.
const (
	TypeKernel      Type = 0
	TypeMemcpy      Type = 1
	TypeMemset      Type = 2
	TypeHost        Type = 3
	TypeChild       Type = 4
	TypeEmpty       Type = 5
	TypeEventWait   Type = 6
	TypeEventRecord Type = 7
	TypeMemoryOps   Type = 12
)

var typeNames = [...]string{
	"kernel", "memcpy", "memset", "host", "graph", "empty", "wait event", "event record",
	TypeMemoryOps: "batch memory operation",
}

func (t Type) known() bool { return int(t) < len(typeNames) && typeNames[t] != "" }

func (t Type) String() string { return typeNames[t] }

// Op is the operation of a node. The set is closed: Kernel, Copy, Memset, Host, Child, Empty,
// EventWait, EventRecord and MemoryOps. Ops are plain data with handles and addresses, never live
// objects, so a graph may outlive the objects that it names.
type Op interface{ Type() Type }

// Kernel launches a function.
type Kernel struct {
	Function    abi.Handle
	Grid, Block [3]uint32
	SharedBytes uint32
	Cooperative bool
	// Params is the packed parameter block. It is immutable once it is part of an op.
	Params []byte
	// Attributes are gpu.Launch's.
	Attributes []abi.LaunchAttribute
}

// Copy copies a box of bytes, as gpu.Copy does.
type Copy struct {
	Dst, Src End
	Extent   [3]uint64
}

// End is one end of a copy.
type End struct {
	// Program is set for the program's own memory; otherwise it is device memory or the arena.
	Program              bool
	Address              uint64
	RowPitch, SlicePitch uint64
	// Inline holds the source's bytes if they came with the call.
	Inline []byte
}

// Memset fills memory.
type Memset struct{ gpu.Fill }

// Host runs a host function of the program, on a thread of the program.
type Host struct{ Function, UserData uint64 }

// Child runs a whole graph that belongs to the node.
type Child struct{ Graph *Graph }

// Empty does nothing; it only joins edges.
type Empty struct{}

// EventWait waits for an event that is recorded outside the graph.
type EventWait struct{ Event abi.Handle }

// EventRecord records an event, for waits outside the graph.
type EventRecord struct{ Event abi.Handle }

// MemoryOps writes words in memory and waits for words.
type MemoryOps struct{ gpu.MemoryOps }

// Type returns TypeMemoryOps.
func (MemoryOps) Type() Type { return TypeMemoryOps }

// Attribute returns the index of an attribute in Attributes, or -1.
func (k *Kernel) Attribute(id abi.LaunchAttributeID) int {
	return slices.IndexFunc(k.Attributes, func(a abi.LaunchAttribute) bool { return a.ID == id })
}

// As returns the launch with the other attributes of op: calls that change nodes set only shape and
// parameters.
func (k Kernel) As(other Op) Kernel {
	if before, ok := other.(Kernel); ok {
		k.Cooperative, k.Attributes = before.Cooperative, before.Attributes
	}
	return k
}

// Type returns TypeKernel.
func (Kernel) Type() Type { return TypeKernel }

// Type returns TypeMemcpy.
func (Copy) Type() Type { return TypeMemcpy }

// Type returns TypeMemset.
func (Memset) Type() Type { return TypeMemset }

// Type returns TypeHost.
func (Host) Type() Type { return TypeHost }

// Type returns TypeChild.
func (Child) Type() Type { return TypeChild }

// Type returns TypeEmpty.
func (Empty) Type() Type { return TypeEmpty }

// Type returns TypeEventWait.
func (EventWait) Type() Type { return TypeEventWait }

// Type returns TypeEventRecord.
func (EventRecord) Type() Type { return TypeEventRecord }
