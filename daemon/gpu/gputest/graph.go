package gputest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// instantiate prepares a graph of nodes for launching. An error ends the test.
func (b *bench) instantiate(nodes ...gpu.Node) gpu.Executable {
	b.t.Helper()
	e, err := b.context.Instantiate(&gpu.Graph{Nodes: nodes})
	b.must(err)
	return e
}

// testGraphDependencies runs a graph of two diamonds whose nodes are not in topological order.
func testGraphDependencies(t *testing.T, b *bench) {
	after := [][]int{6: nil, 4: {6}, 5: {6}, 0: {4, 5}, 2: {0}, 3: {0}, 1: {2, 3}}
	var mu sync.Mutex
	position := map[int]int{}
	var nodes []gpu.Node
	for i, before := range after {
		nodes = append(nodes, gpu.Node{After: before, Work: gpu.Call{Func: func() {
			mu.Lock()
			defer mu.Unlock()
			position[i] = len(position)
		}}})
	}
	e, s := b.instantiate(nodes...), b.newStream()
	for range 50 {
		b.must(e.Launch(s))
		b.must(s.Synchronize())
		for i, before := range after {
			for _, j := range before {
				if position[j] >= position[i] {
					t.Fatalf("node %d ran before node %d: %v", i, j, position)
				}
			}
		}
		if len(position) != len(after) {
			t.Fatalf("%d of %d nodes ran", len(position), len(after))
		}
		clear(position)
	}
	b.must(b.instantiate().Launch(s)) // an empty graph
	b.must(s.Synchronize())
	b.must(e.Close())
	b.want("launch of a destroyed graph", e.Launch(s), abi.InvalidHandle)
}

func testGraphUpdate(_ *testing.T, b *bench) {
	address, out := b.alloc(4), b.alloc(400)
	fill := func(value uint32) gpu.Work {
		return gpu.Fill{Address: address, Pattern: value, PatternBytes: 4, Columns: 1, Rows: 1}
	}
	e := b.instantiate(gpu.Node{Work: fill(1)}, gpu.Node{Work: gpu.Empty{}, After: []int{0}})
	s := b.newStream()
	var want []uint32
	for i := range uint32(100) {
		if i%3 != 0 { // a queued launch is not affected by updates
			b.must(e.Update(0, fill(i)))
			want = append(want, i)
		} else {
			want = append(want, max(i, 2)-1)
		}
		b.must(e.Launch(s))
		b.submit(s, linear(device(out+uint64(i)*4), device(address), 4))
	}
	want[0] = 1
	b.must(s.Synchronize())
	b.same("values of 100 launches", b.read(out, 400), words(want...))
	b.want("other kind", e.Update(0, gpu.Empty{}), abi.InvalidValue)
	b.want("bad work", e.Update(0, gpu.Fill{PatternBytes: 7}), abi.InvalidValue)
	b.want("no such node", e.Update(2, gpu.Empty{}), abi.InvalidValue)
}

// testGraphQueued updates a graph with every kind of node while its launches are blocked behind a
// gate, and launches it in two streams, one launch after the other. Each launch must use the
// graph's state at the call.
func testGraphQueued(_ *testing.T, b *bench) {
	data := b.load(noise(9, 1000))
	address, log := b.alloc(1000), b.alloc(8000)
	store := b.kernel("store")
	work := func(i int) []gpu.Work {
		pitched := func(at uint64, pitch uint64) gpu.Place { return gpu.Place{Address: at, RowPitch: pitch} }
		return []gpu.Work{
			gpu.Fill{Address: address, Pattern: uint32(i), PatternBytes: 4, Columns: uint64(i), Rows: 1},
			gpu.Fill{Address: address + 100, Pattern: uint32(i), PatternBytes: 2, Columns: 3, Rows: uint64(i), RowPitch: 10},
			linear(device(address+300), device(data+uint64(i)), 90+i%2),
			gpu.Copy{Dst: pitched(address+500, 20), Src: pitched(data, 30), Extent: [3]uint64{uint64(10 + i), uint64(i), 1}},
			launch(store, 1, 1, address+800, uint32(i)),
			linear(device(log+uint64(i)*1000), device(address), 1000),
		}
	}
	const launches = 8
	for i := range launches {
		b.run(work(i)...)
	}
	want := b.read(log, launches*1000)
	b.run(
		gpu.Fill{Address: log, PatternBytes: 1, Columns: launches * 1000, Rows: 1},
		gpu.Fill{Address: address, PatternBytes: 1, Columns: 1000, Rows: 1},
	)
	var nodes []gpu.Node
	for i, w := range work(1) {
		nodes = append(nodes, gpu.Node{Work: w, After: []int{i - 1, i - 1}})
	}
	nodes[0].After = nil
	e, first, second := b.instantiate(nodes...), b.newStream(), b.newStream()
	held, reached, open := gate()
	launched := b.newEvent(false)
	for i := range launches {
		for node, w := range work(i) {
			b.must(e.Update(node, w))
		}
		stream := first
		if i == 1 || i == 5 {
			stream = second
		}
		if i == 3 {
			b.submit(first, held)
			b.waitClosed("gate", reached)
		}
		b.submit(stream, gpu.Await{Event: launched})
		b.must(e.Launch(stream))
		b.submit(stream, gpu.Record{Event: launched})
	}
	b.must(e.Close())
	open()
	b.must(b.context.Synchronize())
	b.same("results of all launches", b.read(log, len(want)), want)
}

// testGraphApart launches a graph in a stream that then waits for a word, and in another one: the
// second launch does not wait for the word, whether the graph was updated in between or not.
func testGraphApart(_ *testing.T, b *bench) {
	address, word := b.alloc(8), b.alloc(8)
	fill := func(columns uint64) gpu.Fill {
		return gpu.Fill{Address: address, Pattern: 7, PatternBytes: 4, Columns: columns, Rows: 1}
	}
	for turn, updated := range []bool{false, true} {
		e, first, second := b.instantiate(gpu.Node{Work: fill(1)}), b.newStream(), b.newStream()
		met := gpu.MemoryOp{Wait: true, Until: gpu.UntilEqual, Bytes: 4, Address: word, Value: uint64(turn + 1)}
		launched := b.newEvent(false)
		b.must(e.Launch(first))
		b.submit(first, gpu.Record{Event: launched}, gpu.MemoryOps{Ops: []gpu.MemoryOp{met}})
		if updated {
			b.must(e.Update(0, fill(0))) // a driver cannot update a node to nothing
			b.must(e.Update(0, fill(2)))
		}
		b.submit(second, gpu.Await{Event: launched})
		b.must(e.Launch(second))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = second.Synchronize() // an error is that of the context, too
		}()
		b.waitClosed("the second launch", done)
		b.want("what waits for the word", first.Query(), abi.NotReady)
		b.write(word, []byte{byte(turn + 1)})
		b.must(b.context.Synchronize())
		b.must(e.Close())
	}
	b.same("both words", b.read(address, 8), words(7, 7))
}

func testGraphRefused(_ *testing.T, b *bench) {
	for name, nodes := range map[string][]gpu.Node{
		"cycle":        {{Work: gpu.Empty{}, After: []int{1}}, {Work: gpu.Empty{}, After: []int{0}}},
		"itself":       {{Work: gpu.Empty{}, After: []int{0}}},
		"out of range": {{Work: gpu.Empty{}, After: []int{-1}}},
		"bad work":     {{Work: gpu.Fill{PatternBytes: 3}}},
		"no work":      {{}},
	} {
		_, err := b.context.Instantiate(&gpu.Graph{Nodes: nodes})
		b.want(name, err, abi.InvalidValue)
	}
}

// testGraphEvents checks events that are recorded and awaited inside graphs.
func testGraphEvents(t *testing.T, b *bench) {
	start, end := b.newEvent(false), b.newEvent(false)
	address := b.alloc(4)
	fill := func(value uint32) gpu.Work {
		return gpu.Fill{Address: address, Pattern: value, PatternBytes: 4, Columns: 1, Rows: 1}
	}
	e := b.instantiate(
		gpu.Node{Work: gpu.Await{Event: start}},
		gpu.Node{Work: fill(7), After: []int{0}},
		gpu.Node{Work: gpu.Record{Event: end}, After: []int{1}},
	)
	outside, inside, last := b.newStream(), b.newStream(), b.newStream()
	work, reached, open := gate()
	b.submit(outside, work, fill(3), gpu.Record{Event: start})
	b.waitClosed("gate", reached)
	b.must(e.Launch(inside))
	b.want("event of a blocked graph", end.Query(), abi.NotReady)
	b.submit(last, gpu.Await{Event: end}, gpu.Fill{Address: address + 2, Pattern: 1, PatternBytes: 1, Columns: 1, Rows: 1})
	open()
	b.must(b.context.Synchronize())
	if got := fmt.Sprintf("%x", b.read(address, 4)); got != "07000100" {
		t.Errorf("memory is %s", got)
	}
}

// testKernelGraph adds in parallel branches and joins them.
func testKernelGraph(_ *testing.T, b *bench) {
	m := b.mustModule(kernelsPTX)
	count := launch(b.function(m, "count"), 3, 32)
	out := b.alloc(4)
	counter := m.Globals()["counter"].Address
	nodes := []gpu.Node{{Work: gpu.Fill{Address: counter, PatternBytes: 4, Columns: 1, Rows: 1}}}
	var branches []int
	for i := range 8 {
		nodes = append(nodes, gpu.Node{Work: count, After: []int{0}})
		branches = append(branches, i+1)
	}
	nodes = append(nodes, gpu.Node{Work: linear(device(out), device(counter), 4), After: branches})
	e, s := b.instantiate(nodes...), b.newStream()
	for range 5 {
		b.must(e.Launch(s))
	}
	b.must(s.Synchronize())
	b.same("sum of all branches", b.read(out, 4), words(8*96))
}
