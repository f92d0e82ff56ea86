package cuda

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
	order   []int // topological

	mu    sync.Mutex
	works []gpu.Work // by node
	// last is reached when the latest launch is done: launches of one graph do not overlap.
	last   *mark
	closed bool
}

// sorted orders a graph, or says what is wrong with it.
func sorted(nodes []gpu.Node) ([]int, error) {
	next, left := make([][]int, len(nodes)), make([]int, len(nodes))
	for i, node := range nodes {
		for _, before := range node.After {
			if before < 0 || before >= len(nodes) || before == i {
				return nil, &gpu.Error{Op: "instantiate graph", Code: abi.InvalidValue, Detail: fmt.Sprintf("node %d depends on node %d", i, before)}
			}
			next[before] = append(next[before], i)
			left[i]++
		}
	}
	var order []int
	for i := range nodes {
		if left[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, after := range next[order[at]] {
			if left[after]--; left[after] == 0 {
				order = append(order, after)
			}
		}
	}
	if len(order) < len(nodes) {
		return nil, &gpu.Error{Op: "instantiate graph", Code: abi.InvalidValue, Detail: "the dependencies form a circle"}
	}
	return order, nil
}

// Instantiate checks a graph and makes it ready.
func (c *Context) Instantiate(graph *gpu.Graph) (gpu.Executable, error) {
	if err := c.usable("instantiate graph"); err != nil {
		return nil, err
	}
	order, err := sorted(graph.Nodes)
	if err != nil {
		return nil, err
	}
	e := &Executable{context: c, order: order, works: make([]gpu.Work, len(graph.Nodes))}
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
	e.works[node] = work
	return nil
}

// Launch queues the whole graph in a stream, node after node.
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
	items, err := e.items()
	if err != nil {
		return err
	}
	return s.putAll(items)
}

// items is what one launch submits. mu is held.
func (e *Executable) items() (items []item, err error) {
	if e.last != nil {
		items = append(items, item{work: gpu.Await{}, mark: e.last})
	}
	for _, i := range e.order {
		it, err := e.context.prepare(e.works[i])
		if err != nil {
			for _, it := range items {
				it.abandon()
				it.drop()
			}
			e.last = nil
			return nil, fmt.Errorf("graph node %d: %w", i, err)
		}
		items = append(items, it)
	}
	e.last = &mark{context: e.context}
	e.last.users.Store(2) // this graph's next launch, and the stream
	return append(items, item{work: gpu.Record{}, mark: e.last}), nil
}

// putAll puts items one behind the other, with nothing between. After the first that fails, the rest only lets go who waits.
func (s *Stream) putAll(items []item) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range items {
		if err != nil {
			it.abandon()
			it.drop()
			continue
		}
		err = s.put(it)
	}
	return err
}

// Close ends the graph. Launches that are queued still run.
func (e *Executable) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return &gpu.Error{Op: "destroy graph", Code: abi.InvalidHandle, Detail: "the graph is destroyed"}
	}
	e.closed = true
	e.last.drop()
	return nil
}
