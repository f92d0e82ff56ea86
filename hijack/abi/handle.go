package abi

import "fmt"

// Handle replaces the driver's object pointers in a program: 0x7000_0000_0000 | kind<<32 | index.
// Indices begin at 1 and are never reused within a session, so a stale handle never refers to a new
// object.
type Handle uint64

// Kind is the kind of object that a handle refers to.
type Kind uint8

// Kinds of handles. A kernel is accepted wherever a function is.
const (
	KindNone Kind = iota
	KindContext
	KindModule
	KindFunction
	KindStream
	KindEvent
	KindGraph
	KindGraphNode
	KindGraphExec
	KindMemoryPool
	KindLibrary
	KindKernel
	KindLink
	KindUserObject
	KindAllocation // memory without an address: cuMemCreate
	kindEnd
)

// LastKind is the highest kind.
const LastKind = kindEnd - 1

// The special stream handles of the driver.
const (
	StreamDefault   Handle = 0
	StreamLegacy    Handle = 1
	StreamPerThread Handle = 2
)

// HandleBase is common to all handles; the kind is added at bit 32.
const HandleBase = 0x7000_0000_0000

// NewHandle returns the handle with a kind and an index.
func NewHandle(kind Kind, index uint32) Handle {
	return HandleBase | Handle(kind)<<32 | Handle(index)
}

// PrimaryContext returns the handle of a device's primary context. It is the same whether or not
// the context exists.
func PrimaryContext(device int) Handle { return NewHandle(KindContext, uint32(device)+1) }

// Kind returns the handle's kind, or KindNone if it is not a handle of phos.
func (h Handle) Kind() Kind {
	kind := Kind(h >> 32 & 0xff)
	if h>>40 != HandleBase>>40 || kind > LastKind {
		return KindNone
	}
	return kind
}

// Index returns the number of the object among those of its kind.
func (h Handle) Index() uint32 { return uint32(h) }

var kindNames = [...]string{
	"none", "context", "module", "function", "stream", "event", "graph", "graph node",
	"graph exec", "memory pool", "library", "kernel", "link", "user object", "allocation",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (h Handle) String() string {
	if h.Kind() == KindNone {
		return fmt.Sprintf("%#x", uint64(h))
	}
	return fmt.Sprintf("%s %d", h.Kind(), h.Index())
}
