package cuda

import (
	"slices"
	"sync/atomic"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
)

// driverGraph is an instantiated graph of the driver. It is reference-counted.
type driverGraph struct {
	context  *Context
	graph    cudadrv.Graph // its nodes identify those of exec
	exec     cudadrv.GraphExec
	nodes    []cudadrv.GraphNode
	kernels  []*string // some distinct names, for error messages
	heapUser *Function // one whose code calls malloc; nil for none
	// launches is the number of kernels in the graph.
	launches uint64
	// references counts references: the executable and queued launches. queued counts launches that
	// were not given to the driver yet.
	references, queued atomic.Int32
}

// newDriverGraph creates a graph of the driver from an executable's works. It returns nil if the
// driver cannot do that for any reason; the works are then submitted one by one, which may succeed
// or give a better error.
func (c *Context) newDriverGraph(e *Executable) *driverGraph {
	if len(e.works) == 0 || slices.ContainsFunc(e.works, func(w gpu.Work) bool { _, ok := c.driverNode(w); return !ok }) {
		return nil
	}
	g := &driverGraph{context: c, nodes: make([]cudadrv.GraphNode, len(e.works))}
	g.references.Store(1)
	err := g.build(e)
	if err != nil {
		g.release()
		_ = c.driverErr("instantiate graph", err)
		c.backend.options.Logger.Debug("driver cannot instantiate graph; launching node by node", "nodes", len(e.works),
			"error", err)
		return nil
	}
	return g
}

// build adds the nodes in topological order and instantiates the graph.
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
		node, _ := c.driverNode(e.works[i])
		if g.nodes[i], err = node(c, placing); err != nil {
			return err
		}
		if launch, ok := e.works[i].(gpu.Launch); ok {
			g.addKernel(launch.Function.(*Function))
		}
	}
	g.exec, err = c.driver.GraphInstantiateWithFlags(c.native, g.graph, 0)
	return err
}

// addKernel counts a kernel and remembers its name.
func (g *driverGraph) addKernel(f *Function) {
	kernel := &f.info.Name
	g.launches++
	if f.module.allocates {
		g.heapUser = f
	}
	if len(g.kernels) < 8 && !slices.Contains(g.kernels, kernel) {
		g.kernels = append(g.kernels, kernel)
	}
}

// nodeFunc adds a node to a graph, or updates one.
type nodeFunc func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error)

// driverNode returns the driver's node for some work. ok is false if there is none: the work needs
// the host, another device, or several nodes.
func (c *Context) driverNode(work gpu.Work) (nodeFunc, bool) {
	switch w := work.(type) {
	case gpu.Empty:
		return emptyNode, true
	case gpu.Launch:
		return launchNode(w), true
	case gpu.Copy:
		return copyNode(w)
	case gpu.Fill:
		return fillNode(w), c.remoteContext(w.Address) == nil
	}
	return nil, false
}

// emptyNode adds an empty node. There is nothing to update in one.
func emptyNode(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
	return c.driver.EmptyNode(c.native, p)
}

// launchNode returns a kernel node.
func launchNode(w gpu.Launch) nodeFunc {
	return func(c *Context, p cudadrv.Placing) (cudadrv.GraphNode, error) {
		f := w.Function.(*Function) // as checkLaunch found it
		return c.driver.KernelNode(c.native, p, f.native, launchShape(&w), w.Params[:f.info.ParamBytes])
	}
}

// copyNode returns a copy node, if one is enough.
func copyNode(w gpu.Copy) (nodeFunc, bool) {
	if w.Dst.Host != nil || w.Src.Host != nil {
		return nil, false
	}
	var boxes []cudadrv.Box
	_ = w.EachPlane(func(dst, src gpu.Place, width, rows uint64) error { // cannot fail
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

// fillNode returns a memset node.
func fillNode(w gpu.Fill) nodeFunc {
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

// update changes a node from the next launch on. It returns false if a new graph is needed: the
// driver can change only some properties, and a queued launch must not see the change.
func (g *driverGraph) update(node int, before, work gpu.Work) bool {
	if isEmpty(before) != isEmpty(work) || !sameAttributes(before, work) || g.queued.Load() > 0 {
		return false
	}
	place, ok := g.context.driverNode(work)
	if !ok {
		return false
	}
	if isEmpty(work) {
		return true
	}
	c := g.context
	if _, err := place(c, cudadrv.Placing{Exec: g.exec, Node: g.nodes[node]}); err != nil {
		_ = c.driverErr("update graph", err)
		return false
	}
	if launch, ok := work.(gpu.Launch); ok {
		g.launches--
		g.addKernel(launch.Function.(*Function))
	}
	return true
}

// sameAttributes reports whether two launches differ only in shape and parameters, which the driver
// can change.
func sameAttributes(before, work gpu.Work) bool {
	old, launched := before.(gpu.Launch)
	if !launched {
		return true
	}
	w, launches := work.(gpu.Launch)
	return launches && old.Cooperative == w.Cooperative && slices.Equal(old.Attributes, w.Attributes)
}

// isEmpty reports whether work is an empty node for the driver.
func isEmpty(work gpu.Work) bool {
	switch w := work.(type) {
	case gpu.Copy:
		return w.Extent[0] == 0 || w.Extent[1] == 0 || w.Extent[2] == 0
	case gpu.Fill:
		return w.Columns == 0 || w.Rows == 0
	case gpu.Empty:
		return true
	}
	return false
}

// addLaunch adds a reference for a launch that is about to be queued.
func (g *driverGraph) addLaunch() {
	g.references.Add(1)
	g.queued.Add(1)
}

// launch launches the graph in a stream.
func (g *driverGraph) launch(s *Stream) error {
	c := g.context
	c.launches.Add(g.launches)
	for _, name := range g.kernels {
		c.recent.add(name)
	}
	if g.heapUser != nil {
		c.noteHeap(g.heapUser)
	}
	return c.driverErr("launch graph", c.driver.GraphLaunch(c.native, g.exec, s.native))
}

// endLaunch drops the reference of a launch that was given to the driver or abandoned.
func (g *driverGraph) endLaunch() {
	if g != nil {
		g.queued.Add(-1)
		g.release()
	}
}

// release drops a reference. The last one destroys the graph; a stopping context destroys it
// itself.
func (g *driverGraph) release() {
	c := g.context
	if g.references.Add(-1) > 0 || c.stopping() {
		return
	}
	if g.exec != 0 {
		_ = c.driverErr("destroy graph", c.driver.GraphExecDestroy(c.native, g.exec))
	}
	if g.graph != 0 {
		_ = c.driverErr("destroy graph", c.driver.GraphDestroy(c.native, g.graph))
	}
}
