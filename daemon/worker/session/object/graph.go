package object

import (
	"fmt"
	"iter"
	"slices"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Kinds of objects that are known by their address, beside the kinds of handles in package abi.
const (
	// KindMemory is device memory, of cuMemAlloc and of pools.
	KindMemory abi.Kind = 0x40 + iota
	// KindPinned is memory in the arena, pinned or managed.
	KindPinned
	// KindRegistered is the program's own memory that kernels reach.
	KindRegistered
	// KindImported is device memory of another process.
	KindImported
)

// Maker is the call that made an object, as it came over the wire.
type Maker struct {
	// Call is the permanent number of the call.
	Call abi.Call
	// Payload holds the call's arguments as package wire encodes them; the user of a Graph gives it a
	// copy to keep.
	Payload []byte
	// Image is code that the call loaded, nil for other calls.
	Image *Image
}

// Object is one thing that the program holds a handle or an address of.
type Object struct {
	// ID is the handle, or for memory the address.
	ID   uint64
	Kind abi.Kind
	// Sequence is the place in the order of creation, from 1.
	Sequence uint64
	Maker    Maker
	// Parent destroys this object when it is destroyed itself; nil for a context.
	Parent *Object
	// Needs are further objects that must exist when this one is made again.
	Needs []*Object
	// State is what package session keeps with the object.
	State any

	users           int // objects whose parent or need this is
	retired         bool
	newer, older    *Object // neighbours in the order of creation
	firstChild      *Object // newest first
	nextSibling     *Object
	previousSibling *Object
	destroyed       bool
}

// Retired reports whether the program has destroyed the object while a younger one still needs its
// record.
func (o *Object) Retired() bool { return o.retired }

// Handle returns the ID as a handle.
func (o *Object) Handle() abi.Handle { return abi.Handle(o.ID) }

// Graph is the set of all objects of a session.
type Graph struct {
	// Images holds the code that was loaded, one copy of each.
	Images Images
	// Watch, if not nil, is told of every object that is made, and of every one that ends, before it
	// does.
	Watch func(o *Object, made bool)

	byID           map[uint64]*Object
	oldest, newest *Object
	sequence       uint64
	index          [abi.LastKind + 1]uint32
}

// ReservedContexts is how many context indices stand for primary contexts.
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

// ReserveHandle makes sure that NextHandle will not give this one, as a restore needs.
func (g *Graph) ReserveHandle(h abi.Handle) {
	if kind := h.Kind(); kind != abi.KindNone {
		g.index[kind] = max(g.index[kind], h.Index())
	}
}

// LastIndices are the last indices that NextHandle gave, by kind.
func (g *Graph) LastIndices() []uint32 { return slices.Clone(g.index[:]) }

// Add enters a new object. The fields up to State are the caller's, but for Sequence. An ID in use
// is a bug of the caller.
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
		o.Parent.addChild(o)
	}
	for _, need := range o.Needs {
		need.users++
	}
	if g.Watch != nil {
		g.Watch(o, true)
	}
	return o
}

func (o *Object) addChild(child *Object) {
	child.nextSibling = o.firstChild
	if o.firstChild != nil {
		o.firstChild.previousSibling = child
	}
	o.firstChild = child
}

func (o *Object) removeChild(child *Object) {
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

// Get returns the living object of an ID, nil where there is none.
func (g *Graph) Get(id uint64) *Object { return g.byID[id] }

// Find returns the living object of a handle; Missing where there is none or it is of another kind.
func (g *Graph) Find(kind abi.Kind, h abi.Handle) (*Object, error) {
	if o := g.byID[uint64(h)]; o != nil && o.Kind == kind {
		return o, nil
	}
	return nil, Missing(kind, h)
}

// values are the kinds of which the driver takes a wrong handle for a wrong value.
var values = []abi.Kind{abi.KindAllocation, abi.KindGraph, abi.KindGraphExec, abi.KindMemoryPool, abi.KindUserObject}

// Missing says that a handle stands for nothing of its kind, in the driver's way.
func Missing(kind abi.Kind, h abi.Handle) error {
	code := abi.InvalidHandle
	if slices.Contains(values, kind) {
		code = abi.InvalidValue
	}
	return &gpu.Error{Op: "find " + kind.String(), Code: code, Detail: h.String() + " does not exist"}
}

// Destroy takes an object away with all that it owns, newest first, and calls release for each as
// it goes. Destroying an object twice does nothing.
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
		o.Parent.removeChild(o)
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
	g.forget(o)
}

// forget drops a record that nothing refers to any more, and then those that only it referred to.
func (g *Graph) forget(o *Object) {
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
		g.drop(o.Parent)
	}
	for _, need := range o.Needs {
		g.drop(need)
	}
}

func (g *Graph) drop(o *Object) {
	o.users--
	if o.users == 0 && o.retired {
		g.forget(o)
	}
}

// Records yields every record in the order of creation, retired ones included: made again in this
// order, each object finds what it needs.
func (g *Graph) Records() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for o := g.oldest; o != nil; o = o.newer {
			if !yield(o) {
				return
			}
		}
	}
}

// Children yields the living objects of a kind that o owns directly, newest first.
func (o *Object) Children(kind abi.Kind) iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for child := o.firstChild; child != nil; child = child.nextSibling {
			if child.Kind == kind && !yield(child) {
				return
			}
		}
	}
}

// Len returns the number of living objects.
func (g *Graph) Len() int { return len(g.byID) }
