package session

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// fakeGPU is a backend for tests of order and bookkeeping: its streams are goroutines, its memory
// is real, and its kernels are Go functions that the test gives names. What PTX does is tested
// elsewhere.
type fakeGPU struct {
	devices int
	chunks  int // how much memory each device has
	mu      sync.Mutex
	kernels map[string]func(m gpu.Memory, params []byte) error
	open    int // contexts
	events  int
	streams int
	modules int
	held    int // streams have been, for a function
}

func (b *fakeGPU) Devices() []gpu.DeviceInfo {
	infos := make([]gpu.DeviceInfo, b.devices)
	for i := range infos {
		infos[i] = gpu.DeviceInfo{
			Name: fmt.Sprintf("fake %d", i), MemoryBytes: uint64(b.chunks) * gpu.ChunkBytes,
			Attributes: map[abi.DeviceAttribute]int32{
				abi.AttrComputeCapabilityMajor: 9,
				abi.AttrMultiprocessorCount:    4,
			},
		}
	}
	return infos
}

func (b *fakeGPU) Close() error { return nil }

func (b *fakeGPU) change(counter *int, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*counter += by
}

func (b *fakeGPU) NewContext(int, gpu.ContextOptions) (gpu.Context, error) {
	b.change(&b.open, 1)
	return &fakeContext{
		backend: b,
		memory:  fakeMemory{limit: b.chunks, chunks: map[uint64][]byte{}, hosts: map[uint64][]byte{}},
	}, nil
}

type fakeContext struct {
	backend *fakeGPU
	memory  fakeMemory
	mu      sync.Mutex
	fault   error
}

func (c *fakeContext) Memory() gpu.Memory { return &c.memory }

func (c *fakeContext) Fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault
}

func (c *fakeContext) Synchronize() error { return c.Fault() }

func (c *fakeContext) Close() error {
	c.backend.change(&c.backend.open, -1)
	return nil
}

// fakeMemory is chunks and host regions by address.
type fakeMemory struct {
	mu     sync.Mutex
	limit  int
	chunks map[uint64][]byte
	hosts  map[uint64][]byte
	// mapping is called before host memory is mapped; it may be nil.
	mapping func(address uint64)
}

func (m *fakeMemory) Map(r gpu.Range) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.chunks)+int(r.Bytes/gpu.ChunkBytes) > m.limit {
		return abi.OutOfMemory
	}
	for a := r.Address; a < r.End(); a += gpu.ChunkBytes {
		m.chunks[a] = make([]byte, gpu.ChunkBytes)
	}
	return nil
}

func (m *fakeMemory) Unmap(r gpu.Range) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for a := r.Address; a < r.End(); a += gpu.ChunkBytes {
		delete(m.chunks, a)
	}
	return nil
}

func (m *fakeMemory) MapHost(address uint64, memory []byte) error {
	if m.mapping != nil {
		m.mapping(address)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.hosts[address] != nil {
		return abi.InvalidValue
	}
	m.hosts[address] = memory
	return nil
}

func (m *fakeMemory) UnmapHost(address uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.hosts, address)
	return nil
}

// at returns the memory behind an address up to where it ends.
func (m *fakeMemory) at(address uint64) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if chunk := m.chunks[address&^(gpu.ChunkBytes-1)]; chunk != nil {
		return chunk[address%gpu.ChunkBytes:]
	}
	for base, host := range m.hosts {
		if address >= base && address < base+uint64(len(host)) {
			return host[address-base:]
		}
	}
	return nil
}

func (m *fakeMemory) each(p []byte, address int64, move func(p, memory []byte) int) (int, error) {
	for done := 0; done < len(p); {
		memory := m.at(uint64(address) + uint64(done))
		if memory == nil {
			return done, abi.IllegalAddress
		}
		done += move(p[done:], memory)
	}
	return len(p), nil
}

func (m *fakeMemory) ReadAt(p []byte, address int64) (int, error) {
	return m.each(p, address, func(p, memory []byte) int { return copy(p, memory) })
}

func (m *fakeMemory) WriteAt(p []byte, address int64) (int, error) {
	return m.each(p, address, func(p, memory []byte) int { return copy(memory, p) })
}

func (m *fakeMemory) Usage() (free, total uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(m.limit-len(m.chunks)) * gpu.ChunkBytes, uint64(m.limit) * gpu.ChunkBytes
}

// fakeStream runs its work on a goroutine.
type fakeStream struct {
	context *fakeContext
	mu      sync.Mutex
	ready   sync.Cond
	queue   []func()
	running bool
	closed  bool
}

func (c *fakeContext) NewStream(gpu.StreamOptions) (gpu.Stream, error) {
	st := &fakeStream{context: c}
	st.ready.L = &st.mu
	c.backend.change(&c.backend.streams, 1)
	go st.loop()
	return st, nil
}

func (st *fakeStream) loop() {
	st.mu.Lock()
	defer st.mu.Unlock()
	for {
		for len(st.queue) == 0 {
			st.running = false
			st.ready.Broadcast()
			if st.closed {
				return
			}
			st.ready.Wait()
		}
		st.running = true
		f := st.queue[0]
		st.queue = st.queue[1:]
		st.mu.Unlock()
		f()
		st.mu.Lock()
	}
}

func (st *fakeStream) push(f func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.queue = append(st.queue, f)
	st.ready.Broadcast()
}

func (st *fakeStream) Submit(work gpu.Work) error {
	if await, is := work.(gpu.Await); is {
		point := await.Event.(*fakeEvent).last()
		st.push(func() { <-point })
		return nil
	}
	if record, is := work.(gpu.Record); is {
		reached := record.Event.(*fakeEvent).record()
		st.push(reached)
		return nil
	}
	st.push(func() { st.context.run(work) })
	return nil
}

func (c *fakeContext) run(work gpu.Work) {
	switch work := work.(type) {
	case gpu.Call:
		c.backend.change(&c.backend.held, 1)
		work.Func()
		return
	case gpu.Completion:
		work.Func()
		return
	}
	if c.Fault() != nil {
		return
	}
	var err error
	switch work := work.(type) {
	case gpu.Launch:
		err = work.Function.(*fakeFunction).body(&c.memory, work.Params)
	case gpu.Copy:
		c.copy(work)
	case gpu.Fill:
		pattern := []byte{
			byte(work.Pattern), byte(work.Pattern >> 8), byte(work.Pattern >> 16),
			byte(work.Pattern >> 24),
		}[:work.PatternBytes]
		row := slices.Repeat(pattern, int(work.Columns))
		for i := range work.Rows {
			_, err = c.memory.WriteAt(row, int64(work.Address+i*work.RowPitch))
		}
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fault = err
	}
}

func (c *fakeContext) end(p gpu.Place) gpu.HostMemory {
	if p.Host != nil {
		return p.Host
	}
	return &c.memory
}

func (c *fakeContext) copy(work gpu.Copy) {
	row := make([]byte, work.Extent[0])
	for z := range work.Extent[2] {
		for y := range work.Extent[1] {
			if _, err := c.end(work.Src).ReadAt(row,
				int64(work.Src.Address+z*work.Src.SlicePitch+y*work.Src.RowPitch)); err != nil &&
				!errors.Is(err, io.EOF) {
				return
			}
			_, _ = c.end(work.Dst).WriteAt(row, int64(work.Dst.Address+z*work.Dst.SlicePitch+y*work.Dst.RowPitch))
		}
	}
}

func (st *fakeStream) Query() error {
	if !st.Idle() {
		return abi.NotReady
	}
	return st.context.Fault()
}

func (st *fakeStream) Idle() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.queue) == 0 && !st.running
}

func (st *fakeStream) Synchronize() error {
	done := make(chan struct{})
	st.push(func() { close(done) })
	<-done
	return st.context.Fault()
}

func (st *fakeStream) Close() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	st.ready.Broadcast()
	st.context.backend.change(&st.context.backend.streams, -1)
	return nil
}

// fakeEvent has a channel for its last record, closed when that is reached.
type fakeEvent struct {
	context *fakeContext
	mu      sync.Mutex
	point   chan struct{}
	at      time.Time
}

func (c *fakeContext) NewEvent(gpu.EventOptions) (gpu.Event, error) {
	c.backend.change(&c.backend.events, 1)
	point := make(chan struct{})
	close(point)
	return &fakeEvent{context: c, point: point}, nil
}

func (e *fakeEvent) last() chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.point
}

func (e *fakeEvent) record() func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	point := make(chan struct{})
	e.point = point
	return func() {
		e.mu.Lock()
		e.at = time.Now()
		e.mu.Unlock()
		close(point)
	}
}

func (e *fakeEvent) Query() error {
	select {
	case <-e.last():
		return e.context.Fault()
	default:
		return abi.NotReady
	}
}

func (e *fakeEvent) Synchronize() error { <-e.last(); return e.context.Fault() }

func (e *fakeEvent) ElapsedSince(start gpu.Event) (float32, error) {
	return float32(e.at.Sub(start.(*fakeEvent).at).Seconds() * 1000), nil
}

func (e *fakeEvent) Close() error {
	e.context.backend.change(&e.context.backend.events, -1)
	return nil
}

// fakeModule is a text whose words after ".entry" are its kernels; "broken" does not load.
type fakeModule struct {
	context *fakeContext
	names   []string
	globals map[string]gpu.Range
}

type fakeFunction struct {
	name string
	body func(m gpu.Memory, params []byte) error
}

func (c *fakeContext) LoadModule(image gpu.Image, options gpu.LoadOptions) (gpu.Module, error) {
	m := &fakeModule{context: c, globals: map[string]gpu.Range{}}
	words := strings.Fields(strings.Join(image.PTX, "\n"))
	for i, word := range words {
		switch word {
		case "broken":
			return nil, &gpu.LoadError{Log: "line 1, column 1: broken", Err: abi.InvalidPTX}
		case ".entry":
			m.names = append(m.names, words[i+1])
		case ".global":
			address, err := options.Place(words[i+1], 100, 4)
			if err != nil {
				return nil, err
			}
			m.globals[words[i+1]] = gpu.Range{Address: address, Bytes: 100}
		case ".managed":
			address, err := options.PlaceManaged(words[i+1], 100)
			if err != nil {
				return nil, err
			}
			m.globals[words[i+1]] = gpu.Range{Address: address, Bytes: 100}
		}
	}
	slices.Sort(m.names)
	c.backend.change(&c.backend.modules, 1)
	return m, nil
}

func (m *fakeModule) Functions() []string { return m.names }

func (m *fakeModule) Function(name string) (gpu.Function, error) {
	if !slices.Contains(m.names, name) {
		return nil, abi.NotFound
	}
	m.context.backend.mu.Lock()
	defer m.context.backend.mu.Unlock()
	body := m.context.backend.kernels[name]
	if body == nil {
		body = func(gpu.Memory, []byte) error { return nil }
	}
	return &fakeFunction{name: name, body: body}, nil
}

func (m *fakeModule) Globals() map[string]gpu.Range { return m.globals }

func (m *fakeModule) Close() error {
	m.context.backend.change(&m.context.backend.modules, -1)
	return nil
}

func (f *fakeFunction) Info() gpu.FunctionInfo {
	return gpu.FunctionInfo{Name: f.name, ParamBytes: 8, Params: []gpu.Param{{Offset: 0, Bytes: 8}}}
}
func (f *fakeFunction) SetAttribute(int32, int32) error       { return nil }
func (f *fakeFunction) ActiveBlocks(int, uint64) (int, error) { return 2, nil }

// fakeExecutable runs its nodes one after the other.
type fakeExecutable struct {
	context *fakeContext
	mu      sync.Mutex
	graph   gpu.Graph
}

func (c *fakeContext) Instantiate(g *gpu.Graph) (gpu.Executable, error) {
	for i, n := range g.Nodes {
		for _, d := range n.After {
			if d >= i {
				return nil, abi.InvalidValue
			}
		}
	}
	return &fakeExecutable{context: c, graph: gpu.Graph{Nodes: slices.Clone(g.Nodes)}}, nil
}

func (x *fakeExecutable) Launch(stream gpu.Stream) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.graph.Nodes {
		if err := stream.Submit(n.Work); err != nil {
			return err
		}
	}
	return nil
}

func (x *fakeExecutable) Update(node int, work gpu.Work) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.graph.Nodes[node].Work = work
	return nil
}

func (x *fakeExecutable) Close() error { return nil }

// nullStream takes work and does nothing, to measure what comes before.
type nullStream struct{}

func (nullStream) Submit(gpu.Work) error { return nil }
func (nullStream) Query() error          { return nil }
func (nullStream) Idle() bool            { return true }
func (nullStream) Synchronize() error    { return nil }
func (nullStream) Close() error          { return nil }
