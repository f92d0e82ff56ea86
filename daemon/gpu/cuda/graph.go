package cuda

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Executable is a checked graph. It is launched as a graph of the driver if the driver can do all
// of it, else node by node.
type Executable struct {
	context *Context
	plan    *gpu.Plan
	nodes   []gpu.Node // with their original work

	mu    sync.Mutex
	works []gpu.Work // by node
	// native is the driver's graph; nil if the driver cannot run the graph, or if stale is set and
	// it must be made again.
	native *driverGraph
	stale  bool
	// stream is the stream of native's latest launch.
	stream *Stream
	closed bool
}

// Instantiate checks a graph and prepares it for launching.
func (c *Context) Instantiate(graph *gpu.Graph) (gpu.Executable, error) {
	if err := c.usable("instantiate graph"); err != nil {
		return nil, err
	}
	plan, err := graph.Plan()
	if err != nil {
		return nil, err
	}
	works, err := c.checks.Graph(graph)
	if err != nil {
		return nil, err
	}
	e := &Executable{context: c, plan: plan, nodes: graph.Nodes, works: works}
	e.native = c.newDriverGraph(e)
	if err := c.Fault(); err != nil {
		return nil, err
	}
	return e, nil
}

// Update replaces the work of a node, from the next launch on.
func (e *Executable) Update(node int, work gpu.Work) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := gpu.CheckUpdate(e.works, node, work); err != nil {
		return err
	}
	if err := e.context.checks.Work(work); err != nil {
		return fmt.Errorf("update graph, node %d: %w", node, err)
	}
	before := e.works[node]
	e.works[node] = work
	if e.native != nil && !e.native.update(node, before, work) {
		e.releaseNative()
	}
	if e.native == nil {
		e.stale = true // the driver may be able to run the graph now
	}
	return nil
}

// Launch queues the whole graph in a stream.
func (e *Executable) Launch(stream gpu.Stream) error {
	s, ok := stream.(*Stream)
	if !ok || s.context != e.context {
		return &gpu.Error{Op: "launch graph", Code: abi.InvalidHandle, Detail: "the stream belongs to another context"}
	}
	if err := e.context.Fault(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &gpu.Error{Op: "launch graph", Code: abi.InvalidHandle, Detail: "the graph is destroyed"}
	}
	if e.stale {
		e.native, e.stale = e.context.newDriverGraph(e), false
	}
	if e.native != nil {
		return e.launchNative(s)
	}
	items, err := e.items()
	if err != nil {
		return err
	}
	return s.putAll(items)
}

// launchNative launches the driver's graph, at once or through the host queue. mu is held.
func (e *Executable) launchNative(s *Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.native.addLaunch()
	e.stream = s
	return s.put(item{work: gpu.Empty{}, graph: e.native})
}

// items returns the items of one launch. mu is held.
func (e *Executable) items() (items []item, err error) {
	for _, i := range e.plan.Order {
		it, err := e.context.prepare(e.works[i])
		if err != nil {
			for _, it := range items {
				it.abandon()
				it.release()
			}
			return nil, fmt.Errorf("graph node %d: %w", i, err)
		}
		items = append(items, it)
	}
	return items, nil
}

// putAll puts items without other work in between. After the first failure, it only releases the
// waiters of the rest.
func (s *Stream) putAll(items []item) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range items {
		if err != nil {
			it.abandon()
			it.release()
			continue
		}
		err = s.put(it)
	}
	return err
}

// releaseNative destroys the driver's graph after its launches. mu is held.
func (e *Executable) releaseNative() {
	native, s := e.native, e.stream
	e.native, e.stream = nil, nil
	if native == nil {
		return
	}
	if s == nil {
		native.release()
		return
	}
	s.mu.Lock()
	if s.destroyed {
		s.mu.Unlock()
		native.release() // all launches are done
		return
	}
	defer s.mu.Unlock()
	// If the driver has no more events, the graph stays until the context is closed.
	_ = s.accept(item{work: gpu.Completion{Func: native.release}, own: true})
}

// Close destroys the graph. Queued launches still run.
func (e *Executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &gpu.Error{Op: "destroy graph", Code: abi.InvalidHandle, Detail: "the graph is destroyed"}
	}
	e.closed = true
	e.releaseNative()
	return nil
}
