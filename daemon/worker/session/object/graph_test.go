package object

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

func add(g *Graph, kind abi.Kind, parent *Object, needs ...*Object) *Object {
	return g.Add(&Object{ID: uint64(g.NextHandle(kind)), Kind: kind, Parent: parent, Needs: needs})
}

func records(g *Graph) (handles []abi.Handle) {
	for o := range g.Records() {
		handles = append(handles, o.Handle())
	}
	return handles
}

func TestHandlesAreNeverReused(t *testing.T) {
	g := NewGraph()
	context := add(g, abi.KindContext, nil)
	if context.Handle().Index() != 25 {
		t.Errorf("first created context is %v, want index 25; 1 to 24 are primary contexts", context.Handle())
	}
	first := add(g, abi.KindStream, context)
	g.Destroy(first, func(*Object) {})
	if second := add(g, abi.KindStream, context); second.ID == first.ID {
		t.Errorf("handle %v was reused", second.Handle())
	}
	g.ReserveHandle(abi.NewHandle(abi.KindStream, 100))
	if got := g.NextHandle(abi.KindStream); got.Index() != 101 {
		t.Errorf("NextHandle after reserving stream 100 = %v", got)
	}
}

func TestFindChecksTheKind(t *testing.T) {
	g := NewGraph()
	context := add(g, abi.KindContext, nil)
	stream := add(g, abi.KindStream, context)
	if o, err := g.Find(abi.KindStream, stream.Handle()); err != nil || o != stream {
		t.Fatal(o, err)
	}
	for _, h := range []abi.Handle{0, 5, context.Handle(), abi.NewHandle(abi.KindStream, 99), 0xffff_ffff_ffff_ffff} {
		if _, err := g.Find(abi.KindStream, h); !errors.Is(err, abi.InvalidHandle) {
			t.Errorf("%v: %v", h, err)
		}
	}
}

func TestContextTakesEverythingAlong(t *testing.T) {
	g := NewGraph()
	keep := add(g, abi.KindContext, nil)
	context := add(g, abi.KindContext, nil)
	module := add(g, abi.KindModule, context)
	function := add(g, abi.KindFunction, module)
	stream := add(g, abi.KindStream, context)
	graph := add(g, abi.KindGraph, context, function)
	exec := add(g, abi.KindGraphExec, context, graph)
	var order []abi.Handle
	g.Destroy(context, func(o *Object) { order = append(order, o.Handle()) })
	want := []abi.Handle{
		exec.Handle(),
		graph.Handle(),
		stream.Handle(),
		function.Handle(),
		module.Handle(),
		context.Handle(),
	}
	if !slices.Equal(order, want) {
		t.Errorf("destroyed %v, want %v", order, want)
	}
	if got := records(g); !slices.Equal(got, []abi.Handle{keep.Handle()}) {
		t.Errorf("remaining records %v", got)
	}
}

func TestNeededRecordsAreRetired(t *testing.T) {
	g := NewGraph()
	context := add(g, abi.KindContext, nil)
	image := g.Images.Keep([]byte("code"))
	module := g.Add(
		&Object{
			ID:     uint64(g.NextHandle(abi.KindModule)),
			Kind:   abi.KindModule,
			Parent: context,
			Maker:  Maker{Image: image},
		},
	)
	function := add(g, abi.KindFunction, module)
	graph := add(g, abi.KindGraph, nil, function)
	exec := add(g, abi.KindGraphExec, context, graph)
	none := func(*Object) {}
	g.Destroy(graph, none)
	g.Destroy(module, none)
	if g.Get(function.ID) != nil || !module.Retired() || !graph.Retired() {
		t.Error("destroyed objects are still found or not retired")
	}
	want := []abi.Handle{context.Handle(), module.Handle(), function.Handle(), graph.Handle(), exec.Handle()}
	if got := records(g); !slices.Equal(got, want) {
		t.Errorf("records %v, want %v", got, want)
	}
	g.Destroy(exec, none)
	if got := records(g); !slices.Equal(got, []abi.Handle{context.Handle()}) {
		t.Errorf("remaining records %v", got)
	}
	if n := len(slices.Collect(g.Images.All())); n != 0 {
		t.Errorf("%d images left", n)
	}
}

func TestImagesKeepOneCopy(t *testing.T) {
	g := NewGraph()
	content := []byte("some code")
	a, b := g.Images.Keep(content), g.Images.Keep(slices.Clone(content))
	if a != b {
		t.Error("two copies of the same content")
	}
	content[0] = 'X'
	if string(a.Bytes) != "some code" {
		t.Error("the image shares the caller's memory")
	}
	g.Images.Discard(a)
	if len(slices.Collect(g.Images.All())) != 1 {
		t.Error("image removed while in use")
	}
	g.Images.Discard(b)
	if len(slices.Collect(g.Images.All())) != 0 {
		t.Error("image kept without users")
	}
}

// TestRecordsStaySound creates and destroys objects at random. After each step it checks that the
// records are in the order of creation and that references point to earlier records.
func TestRecordsStaySound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	g := NewGraph()
	var all []*Object
	living := map[*Object]bool{}
	pick := func() *Object {
		for range 5 {
			if len(all) > 0 {
				if o := all[r.IntN(len(all))]; living[o] {
					return o
				}
			}
		}
		return nil
	}
	for range 5000 {
		if o := pick(); o != nil && r.IntN(5) < 2 {
			g.Destroy(o, func(o *Object) { delete(living, o) })
		} else {
			var needs []*Object
			if need := pick(); need != nil {
				needs = append(needs, need)
			}
			o := add(g, abi.KindGraph, pick(), needs...)
			all = append(all, o)
			living[o] = true
		}
		seen := map[*Object]bool{}
		last := uint64(0)
		for o := range g.Records() {
			if o.Sequence <= last || o.Parent != nil && !seen[o.Parent] || len(o.Needs) > 0 && !seen[o.Needs[0]] {
				t.Fatalf("%v is out of order", o.Handle())
			}
			if living[o] == o.Retired() {
				t.Fatalf("%v: living %v, retired %v", o.Handle(), living[o], o.Retired())
			}
			last, seen[o] = o.Sequence, true
		}
		if g.Len() != len(living) {
			t.Fatalf("%d living, want %d", g.Len(), len(living))
		}
	}
}
