package object

import (
	"fmt"
	"iter"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Kinds of objects that are identified by address, in addition to the kinds of handles in package
// abi.
const (
	// KindMemory is device memory from cuMemAlloc and from pools.
	KindMemory abi.Kind = 0x40 + iota
	// KindPinned is memory in the arena, pinned or managed.
	KindPinned
	// KindRegistered is the program's own memory, registered for kernels.
	KindRegistered
	// KindImported is device memory of another process.
	KindImported
)

// Maker is the call that created an object, as it came over the wire.
type Maker struct {
	// Call is the permanent number of the call.
	Call abi.Call
	// Payload holds the call's arguments as package wire encodes them. The caller passes a copy that
	// the Graph keeps.
	Payload []byte
	// Image is code that the call loaded, nil for other calls.
	Image *Image
}

// Object is an object for which the program has a handle or an address.
type Object struct {
	// ID is the handle or, for memory, the address.
	ID   uint64
	Kind abi.Kind
	// Sequence is the place in the order of creation, from 1.
	Sequence uint64
	Maker    Maker
	// Parent destroys this object when it is destroyed itself. It is nil for a context.
	Parent *Object
	// Needs are further objects that must exist when this one is created again.
	Needs []*Object
	// State is package session's state of the object.
	State any

	users           int // objects that have this one as parent or need
	retired         bool
	newer, older    *Object // neighbours in the order of creation
	firstChild      *Object // newest first
	nextSibling     *Object
	previousSibling *Object
	destroyed       bool
}

// Retired reports whether the object is destroyed but a younger one still needs its record.
func (o *Object) Retired() bool { return o.retired }

// Handle returns the ID as a handle.
func (o *Object) Handle() abi.Handle { return abi.Handle(o.ID) }

// Graph is the set of all objects of a session.
type Graph struct {
	// Images holds the loaded code, one copy of each.
	Images Images
	// Watch, if not nil, is called after each object is created and before it is destroyed.
	Watch func(o *Object, made bool)

	byID           map[uint64]*Object
	oldest, newest *Object
	sequence       uint64
	index          [abi.LastKind + 1]uint32
}

// ReservedContexts is the number of context indices that are reserved for primary contexts.
const ReservedContexts = 24

// NewGraph returns an empty graph.
func NewGraph() *Graph {
	g := &Graph{byID: map[uint64]*Object{}}
	g.index[abi.KindContext] = ReservedContexts
	return g
}

// NextHandle returns a handle that was never used before.
func (g *Graph) NextHandle(kind abi.Kind) abi.Handle {
	g.index[kind]++
	return abi.NewHandle(kind, g.index[kind])
}

// ReserveHandle makes sure that NextHandle does not return this handle; a restore needs that.
func (g *Graph) ReserveHandle(h abi.Handle) {
	if kind := h.Kind(); kind != abi.KindNone {
		g.index[kind] = max(g.index[kind], h.Index())
	}
}

// LastIndices returns the last index that NextHandle used, by kind.
func (g *Graph) LastIndices() []uint32 { return slices.Clone(g.index[:]) }

// Add adds a new object. The caller sets the fields up to State except Sequence. It panics if the
// ID is in use.
func (g *Graph) Add(o *Object) *Object {
	if g.byID[o.ID] != nil {
		panic(fmt.Sprintf("object %#x exists", o.ID))
	}
	g.sequence++
	o.Sequence = g.sequence
	g.byID[o.ID] = o
	o.older = g.newest
	if g.newest != nil {
		g.newest.newer = o
	} else {
		g.oldest = o
	}
	g.newest = o
	if o.Parent != nil {
		o.Parent.users++
		o.Parent.link(o)
	}
	for _, need := range o.Needs {
		need.users++
	}
	if g.Watch != nil {
		g.Watch(o, true)
	}
	return o
}

// link links a child into the list of children.
func (o *Object) link(child *Object) {
	child.nextSibling = o.firstChild
	if o.firstChild != nil {
		o.firstChild.previousSibling = child
	}
	o.firstChild = child
}

// unlink unlinks a child from the list of children.
func (o *Object) unlink(child *Object) {
	if child.previousSibling != nil {
		child.previousSibling.nextSibling = child.nextSibling
	} else if o.firstChild == child {
		o.firstChild = child.nextSibling
	}
	if child.nextSibling != nil {
		child.nextSibling.previousSibling = child.previousSibling
	}
	child.nextSibling, child.previousSibling = nil, nil
}

// Get returns the live object with an ID, or nil.
func (g *Graph) Get(id uint64) *Object { return g.byID[id] }

// Find returns the live object with a handle. It fails with Missing if there is none or its kind
// differs.
func (g *Graph) Find(kind abi.Kind, h abi.Handle) (*Object, error) {
	if o := g.byID[uint64(h)]; o != nil && o.Kind == kind {
		return o, nil
	}
	return nil, Missing(kind, h)
}

// values are the kinds for which the driver reports an invalid handle as an invalid value.
var values = []abi.Kind{abi.KindAllocation, abi.KindGraph, abi.KindGraphExec, abi.KindMemoryPool, abi.KindUserObject}

// Missing returns the driver's error for a handle without an object.
func Missing(kind abi.Kind, h abi.Handle) error {
	code := abi.InvalidHandle
	if slices.Contains(values, kind) {
		code = abi.InvalidValue
	}
	return &gpu.Error{Op: "find " + kind.String(), Code: code, Detail: h.String() + " does not exist"}
}

// Destroy destroys an object and all that it owns, newest first, and calls release for each.
// Destroying an object again does nothing.
func (g *Graph) Destroy(o *Object, release func(*Object)) {
	if o.destroyed {
		return
	}
	o.destroyed = true
	for child := o.firstChild; child != nil; child = o.firstChild {
		g.Destroy(child, release)
	}
	delete(g.byID, o.ID)
	if o.Parent != nil {
		o.Parent.unlink(o)
	}
	if g.Watch != nil {
		g.Watch(o, false)
	}
	release(o)
	o.State = nil
	if o.users > 0 {
		o.retired = true
		return
	}
	g.remove(o)
}

// remove removes a record without users, and then the records that only it used.
func (g *Graph) remove(o *Object) {
	if o.older != nil {
		o.older.newer = o.newer
	} else {
		g.oldest = o.newer
	}
	if o.newer != nil {
		o.newer.older = o.older
	} else {
		g.newest = o.older
	}
	if o.Maker.Image != nil {
		g.Images.release(o.Maker.Image)
	}
	if o.Parent != nil {
		g.unuse(o.Parent)
	}
	for _, need := range o.Needs {
		g.unuse(need)
	}
}

// unuse releases one use of a record.
func (g *Graph) unuse(o *Object) {
	o.users--
	if o.users == 0 && o.retired {
		g.remove(o)
	}
}

// Records yields all records, also retired ones, in the order of creation. In this order each
// object can be created again, because all that it needs comes first.
func (g *Graph) Records() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for o := g.oldest; o != nil; o = o.newer {
			if !yield(o) {
				return
			}
		}
	}
}

// Children yields the live objects of a kind that o owns directly, newest first.
func (o *Object) Children(kind abi.Kind) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for child := o.firstChild; child != nil; child = child.nextSibling {
			if child.Kind == kind && !yield(child) {
				return
			}
		}
	}
}

// Len returns the number of live objects.
func (g *Graph) Len() int { return len(g.byID) }
