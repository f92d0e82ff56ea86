package soft

import (
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Executable is a checked graph with an execution order.
type Executable struct {
	context *Context
	plan    *gpu.Plan

	mu         sync.Mutex
	works      []gpu.Work // by node; copied before a change if a replay uses it
	worksInUse bool       // a replay uses works
	closed     bool
}

// Instantiate checks a graph and prepares it for launches.
func (c *Context) Instantiate(graph *gpu.Graph) (gpu.Executable, error) {
	if err := c.checkUsable("instantiate graph"); err != nil {
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
	return &Executable{context: c, plan: plan, works: works}, nil
}

// Update replaces the work of a node for later launches.
func (e *Executable) Update(node int, work gpu.Work) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := gpu.CheckUpdate(e.works, node, work); err != nil {
		return err
	}
	if err := e.context.checks.Work(work); err != nil {
		return fmt.Errorf("update graph, node %d: %w", node, err)
	}
	if e.worksInUse {
		e.works, e.worksInUse = append([]gpu.Work(nil), e.works...), false
	}
	e.works[node] = work
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
	r, err := newReplay(e)
	if err != nil {
		return err
	}
	if err := s.push(item{stream: s, replay: r}); err != nil {
		r.cancel()
		return err
	}
	e.worksInUse = true
	return nil
}

// Close destroys the graph. Queued launches still run.
func (e *Executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &gpu.Error{Op: "destroy graph", Code: abi.InvalidHandle, Detail: "the graph is destroyed"}
	}
	e.closed = true
	return nil
}
