package soft

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Executable is a checked graph with an order to run it in.
type Executable struct {
	context *Context
	plan    plan

	mu    sync.Mutex
	works []gpu.Work // by node; never changed once a replay has it
	taken bool       // a replay has works
	// last is completed when the latest launch is done: launches of one graph do not overlap.
	last   *mark
	closed bool
}

// plan is a graph's shape, which never changes.
type plan struct {
	order []int   // topological, by index where there is a choice
	next  [][]int // by node: the nodes that wait for it
	needs []int32 // by node: how many it waits for
	width int     // the most nodes at one depth
}

// newPlan orders a graph, or says what is wrong with it.
func newPlan(nodes []gpu.Node) (plan, error) {
	p := plan{next: make([][]int, len(nodes)), needs: make([]int32, len(nodes))}
	depth := make([]int, len(nodes))
	for i, node := range nodes {
		for _, before := range node.After {
			if before < 0 || before >= len(nodes) || before == i {
				return plan{}, &gpu.Error{Op: "instantiate graph", Code: abi.InvalidValue, Detail: fmt.Sprintf("node %d depends on node %d", i, before)}
			}
			p.next[before] = append(p.next[before], i)
			p.needs[i]++
		}
	}
	left := append([]int32(nil), p.needs...)
	for i := range nodes {
		if left[i] == 0 {
			p.order = append(p.order, i)
		}
	}
	for at := 0; at < len(p.order); at++ {
		i := p.order[at]
		for _, after := range p.next[i] {
			depth[after] = max(depth[after], depth[i]+1)
			if left[after]--; left[after] == 0 {
				p.order = append(p.order, after)
			}
		}
	}
	if len(p.order) < len(nodes) {
		return plan{}, &gpu.Error{Op: "instantiate graph", Code: abi.InvalidValue, Detail: "the dependencies form a circle"}
	}
	counts := make([]int, len(nodes))
	for _, d := range depth {
		counts[d]++
		p.width = max(p.width, counts[d])
	}
	return p, nil
}

// Instantiate checks a graph and makes it ready.
func (c *Context) Instantiate(graph *gpu.Graph) (gpu.Executable, error) {
	if err := c.usable("instantiate graph"); err != nil {
		return nil, err
	}
	p, err := newPlan(graph.Nodes)
	if err != nil {
		return nil, err
	}
	e := &Executable{context: c, plan: p, works: make([]gpu.Work, len(graph.Nodes))}
	for i, node := range graph.Nodes {
		if err := c.check(node.Work); err != nil {
			return nil, fmt.Errorf("graph node %d: %w", i, err)
		}
		e.works[i] = node.Work
	}
	return e, nil
}

// Update replaces the work of a node from the next launch on.
func (e *Executable) Update(node int, work gpu.Work) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	refuse := func(detail string) error {
		return &gpu.Error{Op: "update graph", Code: abi.InvalidValue, Detail: fmt.Sprintf("node %d: %s", node, detail)}
	}
	if node < 0 || node >= len(e.works) {
		return refuse("there is none")
	}
	if reflect.TypeOf(work) != reflect.TypeOf(e.works[node]) {
		return refuse(fmt.Sprintf("%T cannot become %T", e.works[node], work))
	}
	if err := e.context.check(work); err != nil {
		return fmt.Errorf("update graph, node %d: %w", node, err)
	}
	if e.taken {
		e.works, e.taken = append([]gpu.Work(nil), e.works...), false
	}
	e.works[node] = work
	return nil
}

// Launch queues the whole graph in a stream.
func (e *Executable) Launch(stream gpu.Stream) error {
	s, known := stream.(*Stream)
	if !known || s.context != e.context {
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
		r.forget()
		return err
	}
	e.taken, e.last = true, r.done
	return nil
}

// Close ends the graph. Launches that are queued still run.
func (e *Executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &gpu.Error{Op: "destroy graph", Code: abi.InvalidHandle, Detail: "the graph is destroyed"}
	}
	e.closed = true
	return nil
}
