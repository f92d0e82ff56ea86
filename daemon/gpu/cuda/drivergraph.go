package cuda

import (
	"slices"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// driverGraph is a graph of the driver's, made ready.
type driverGraph struct {
	context *Context
	graph   cudadrv.Graph // which exec's nodes are named by
	exec    cudadrv.GraphExec
	nodes   []cudadrv.GraphNode
	kernels []*string // their different names, for messages
	// launches is how many kernels it has.
	launches uint64
	// users counts the executable and the launches that are queued; queued counts those that the
	// driver has not got yet.
	users, queued atomic.Int32
}

// newDriverGraph has the driver make a graph of an executable's works; nil where it cannot, for
// whatever reason: then the works are given to it one by one, which may do better, or says what is
// wrong.
func (c *Context) newDriverGraph(e *Executable) *driverGraph {
	if len(e.works) == 0 || slices.ContainsFunc(e.works, func(w gpu.Work) bool { _, is := c.nodeOf(w); return !is }) {
		return nil
	}
	g := &driverGraph{context: c, nodes: make([]cudadrv.GraphNode, len(e.works))}
	g.users.Store(1)
	err := g.build(e)
	if err != nil {
		g.drop()
		_ = c.noted("instantiate graph", err)
		c.backend.options.Logger.Debug("the driver does not take a graph as a whole", "nodes", len(e.works), "error", err)
		return nil
	}
	return g
}

func (g *driverGraph) build(e *Executable) (err error) {
	c := g.context
	if g.graph, err = c.driver.GraphCreate(c.native, 0); err != nil {
		return err
	}
	for _, i := range e.plan.Order {
		var after []cudadrv.GraphNode
		for _, before := range e.nodes[i].After {
			after = append(after, g.nodes[before])
		}
		slices.Sort(after)
		placing := cudadrv.Placing{Graph: g.graph, After: slices.Compact(after)}
		node, _ := c.nodeOf(e.works[i])
		if g.nodes[i], err = node(c, placing); err != nil {
			return err
		}
		if launch, is := e.works[i].(gpu.Launch); is {
			g.note(&launch.Function.(*Function).info.Name)
		}
	}
	g.exec, err = c.driver.GraphInstantiateWithFlags(c.native, g.graph, 0)
	return err
}

func (g *driverGraph) note(kernel *string) {
	g.launches++
	if len(g.kernels) < 8 && !slices.Contains(g.kernels, kernel) {
		g.kernels = append(g.kernels, kernel)
	}
}

// place makes a node, or changes one.
type place func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error)

// nodeOf is the node of the driver's that does some work; false where there is none, as the host or
// another device has its part in it, or the driver would need several.
func (c *Context) nodeOf(work gpu.Work) (place, bool) {
	switch w := work.(type) {
	case gpu.Nothing:
		return emptyNode, true
	case gpu.Launch:
		return launchNode(w), true
	case gpu.Copy:
		return copyNode(w)
	case gpu.Fill:
		return fillNode(w), c.beyond(w.Address) == nil
	}
	return nil, false
}

// emptyNode cannot be changed: there is nothing to change in it.
func emptyNode(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
	return c.driver.EmptyNode(c.native, p)
}

func launchNode(w gpu.Launch) place {
	return func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
		f := w.Function.(*Function) // as checkLaunch found it
		return c.driver.KernelNode(c.native, p, f.native, shapeOf(&w), w.Params[:f.info.ParamBytes])
	}
}

func copyNode(w gpu.Copy) (place, bool) {
	if w.Dst.Host != nil || w.Src.Host != nil {
		return nil, false
	}
	var boxes []cudadrv.Box
	_ = w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error { // which never fails, as this does not
		if rows == 1 {
			dst.RowPitch, src.RowPitch = width, width
		}
		boxes = append(boxes, plane(dst, src, width, rows))
		return nil
	})
	if len(boxes) == 0 {
		return emptyNode, true
	}
	return func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
		return c.driver.CopyNode(c.native, p, boxes[0])
	}, len(boxes) == 1
}

func fillNode(w gpu.Fill) place {
	size := uint64(w.PatternBytes)
	if w.Rows > 1 && w.RowPitch == w.Columns*size {
		w.Columns, w.Rows = w.Columns*w.Rows, 1
	}
	if w.Columns == 0 || w.Rows == 0 {
		return emptyNode
	}
	fill := cudadrv.MemsetNode{
		Address: w.Address, Pitch: w.RowPitch, Width: w.Columns, Height: w.Rows,
		Value: w.Pattern, ElementBytes: uint32(w.PatternBytes),
	}
	return func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
		return c.driver.FillNode(c.native, p, fill)
	}
}

// update changes a node from the next launch on; false where that needs another graph: the driver
// changes less than it makes, and a launch that it has not got yet would change too.
func (g *driverGraph) update(node int, before, work gpu.Work) bool {
	if nothing(before) != nothing(work) || !sameAttributes(before, work) || g.queued.Load() > 0 {
		return false
	}
	place, is := g.context.nodeOf(work)
	if !is {
		return false
	}
	if nothing(work) {
		return true
	}
	c := g.context
	if _, err := place(c, cudadrv.Placing{Exec: g.exec, Node: g.nodes[node]}); err != nil {
		_ = c.noted("update graph", err)
		return false
	}
	if launch, is := work.(gpu.Launch); is {
		g.launches--
		g.note(&launch.Function.(*Function).info.Name)
	}
	return true
}

// sameAttributes reports whether two launches differ in shape and parameters only: the driver
// changes no more in a node.
func sameAttributes(before, work gpu.Work) bool {
	old, launched := before.(gpu.Launch)
	if !launched {
		return true
	}
	w, launches := work.(gpu.Launch)
	return launches && old.Cooperative == w.Cooperative && slices.Equal(old.Attributes, w.Attributes)
}

// nothing reports whether work is an empty node to the driver.
func nothing(work gpu.Work) bool {
	switch w := work.(type) {
	case gpu.Copy:
		return w.Extent[0] == 0 || w.Extent[1] == 0 || w.Extent[2] == 0
	case gpu.Fill:
		return w.Columns == 0 || w.Rows == 0
	case gpu.Nothing:
		return true
	}
	return false
}

// use is for a launch that is to be queued; launch has the driver do it.
func (g *driverGraph) use() {
	g.users.Add(1)
	g.queued.Add(1)
}

func (g *driverGraph) launch(s *Stream) error {
	c := g.context
	c.launches.Add(g.launches)
	for _, name := range g.kernels {
		c.recent.note(name)
	}
	return c.noted("launch graph", c.driver.GraphLaunch(c.native, g.exec, s.native))
}

// unuse is for a launch that the driver has, or never gets.
func (g *driverGraph) unuse() {
	if g != nil {
		g.queued.Add(-1)
		g.drop()
	}
}

// drop gives up one use. The last one gives the graph back; in a context that stops, it goes with
// that.
func (g *driverGraph) drop() {
	c := g.context
	if g.users.Add(-1) > 0 || c.stopping() {
		return
	}
	if g.exec != 0 {
		_ = c.noted("destroy graph", c.driver.GraphExecDestroy(c.native, g.exec))
	}
	if g.graph != 0 {
		_ = c.noted("destroy graph", c.driver.GraphDestroy(c.native, g.graph))
	}
}
