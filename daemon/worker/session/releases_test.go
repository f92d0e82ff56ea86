package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// keepingGPU is a fakeGPU whose driver waits for all work before it releases memory. A session must
// not ask it to while a stream has work: early is what it has asked.
type keepingGPU struct {
	*fakeGPU
	mu       sync.Mutex
	contexts []*keepingContext // by device, the last one of each
	streams  []gpu.Stream
	early    []string
}

func newKeepingGPU() *keepingGPU {
	fake := &fakeGPU{devices: 2, chunks: 16, kernels: map[string]func(gpu.Memory, []byte) error{}}
	return &keepingGPU{fakeGPU: fake, contexts: make([]*keepingContext, fake.devices)}
}

func (b *keepingGPU) NewContext(ordinal int, options gpu.ContextOptions) (gpu.Context, error) {
	c, err := b.fakeGPU.NewContext(ordinal, options)
	if err != nil {
		return nil, err
	}
	fake := c.(*fakeContext)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contexts[ordinal] = &keepingContext{fakeContext: fake, gpu: b}
	b.contexts[ordinal].kept = keepingMemory{fakeMemory: &fake.memory, gpu: b}
	return b.contexts[ordinal], nil
}

// releases notes that the driver releases something.
func (b *keepingGPU) releases(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, st := range b.streams {
		if !st.Idle() {
			b.early = append(b.early, what)
			return
		}
	}
}

// noneEarly checks that the driver has not released anything while a stream had work.
func (b *keepingGPU) noneEarly(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.early) > 0 {
		t.Errorf("while a stream has work: %v", b.early)
	}
}

func (b *keepingGPU) opened() int {
	b.fakeGPU.mu.Lock()
	defer b.fakeGPU.mu.Unlock()
	return b.open
}

type keepingContext struct {
	*fakeContext
	gpu  *keepingGPU
	kept keepingMemory
}

func (c *keepingContext) Memory() gpu.Memory { return &c.kept }

func (c *keepingContext) NewStream(options gpu.StreamOptions) (gpu.Stream, error) {
	st, err := c.fakeContext.NewStream(options)
	if err != nil {
		return nil, err
	}
	c.gpu.mu.Lock()
	defer c.gpu.mu.Unlock()
	c.gpu.streams = append(c.gpu.streams, st)
	return st, nil
}

func (c *keepingContext) Close() error {
	c.gpu.releases("a context is closed")
	return c.fakeContext.Close()
}

// keepingMemory is memory of a keepingGPU.
type keepingMemory struct {
	*fakeMemory
	gpu *keepingGPU
	// refusal is the error of MapHost, nil for none.
	refusal error
}

func (m *keepingMemory) MapHost(address uint64, memory []byte) error {
	if m.refusal != nil {
		return m.refusal
	}
	return m.fakeMemory.MapHost(address, memory)
}

func (m *keepingMemory) UnmapHost(address uint64) error {
	m.gpu.releases("host memory is unmapped")
	return m.fakeMemory.UnmapHost(address)
}

// hostRegions counts the host regions that are mapped.
func (m *keepingMemory) hostRegions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.hosts)
}

func (m *keepingMemory) MapWhole(r gpu.Range) error                      { return m.Map(r) }
func (m *keepingMemory) Reclaimable() uint64                             { return 0 }
func (m *keepingMemory) Reclaim() (bool, error)                          { return true, nil }
func (m *keepingMemory) Consolidate(gpu.Range) error                     { return nil }
func (m *keepingMemory) Compact() error                                  { return nil }
func (m *keepingMemory) ReclaimRequested() bool                          { return false }
func (m *keepingMemory) Consolidated(gpu.Range) bool                     { return true }
func (m *keepingMemory) Alias(uint64, gpu.Memory, gpu.Range, bool) error { return nil }
func (m *keepingMemory) Unalias(uint64) error                            { return nil }

// keepingProgram has a stream on the first GPU with work until open is called.
func keepingProgram(t *testing.T) (p *program, b *keepingGPU, open func()) {
	b = newKeepingGPU()
	p = startProgram(t, b, 1<<20)
	p.backend = b.fakeGPU
	f, open := p.gate()
	t.Cleanup(open)
	p.ok(abi.CallLaunch, launchOf(f, p.stream(0), 0), nil)
	return p, b, open
}

// block creates memory on the second GPU, which no context keeps open.
func (p *program) block() abi.Handle {
	p.t.Helper()
	var made wire.VmmCreateReply
	p.ok(abi.CallVmmCreate, &wire.VmmCreate{Size: gpu.ChunkBytes, Device: 1}, &made)
	return made.Handle
}

// TestLastBlock: the end of a GPU's last memory closes the GPU, but not before all work is done: it
// may wait for the program's next call.
func TestLastBlock(t *testing.T) {
	p, b, open := keepingProgram(t)
	p.ok(abi.CallMemRelease, &wire.MemRelease{Handle: p.block()}, nil)
	p.ok(abi.CallMemRelease, &wire.MemRelease{Handle: p.block()}, nil)
	p.want(abi.OutOfMemory, abi.CallVmmCreate, &wire.VmmCreate{Size: 100 * gpu.ChunkBytes, Device: 1}, nil)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.session.Quiet(done); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "GPU 1 is being closed") {
		t.Errorf("quiet while a GPU waits to be closed: %v", err)
	}
	b.noneEarly(t)
	if n := b.opened(); n != 2 {
		t.Errorf("%d GPUs are open while one has work, want 2", n)
	}
	open()
	p.quiet()
	if n := b.opened(); n != 1 {
		t.Errorf("%d GPUs are open after the last memory of one is gone, want 1", n)
	}
	b.noneEarly(t)
}

// TestBlockAfterLast: a GPU that waits to be closed stays open if it is used again.
func TestBlockAfterLast(t *testing.T) {
	p, b, open := keepingProgram(t)
	p.ok(abi.CallMemRelease, &wire.MemRelease{Handle: p.block()}, nil)
	again := p.block()
	open()
	p.quiet()
	if n := b.opened(); n != 2 {
		t.Errorf("%d GPUs are open, want 2", n)
	}
	p.ok(abi.CallMemRelease, &wire.MemRelease{Handle: again}, nil)
	p.quiet()
	if n := b.opened(); n != 1 {
		t.Errorf("%d GPUs are open after the last memory of one is gone, want 1", n)
	}
	b.noneEarly(t)
}

// TestHostMemoryRefused: host memory that a GPU refuses is unmapped from the others when all work
// is done.
func TestHostMemoryRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(p *program)
	}{
		{"pinned", func(p *program) {
			p.want(abi.NotSupported, abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 4096}, nil)
		}},
		{"registered", func(p *program) {
			var out wire.HostRegisterReply
			p.ok(abi.CallHostRegister, &wire.HostRegister{Address: programBase, Bytes: 4096}, &out)
			if out.Shown != 0 {
				p.t.Error("refused memory is shown to kernels")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, b, open := keepingProgram(t)
			p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{Dev: 1}, &wire.DevicePrimaryCtxRetainReply{})
			first, second := &b.contexts[0].kept, &b.contexts[1].kept
			second.refusal = abi.NotSupported
			c.ask(p)
			b.noneEarly(t)
			if n := first.hostRegions(); n != 1 {
				t.Errorf("%d regions are mapped while a stream has work, want 1", n)
			}
			open()
			p.eventually("the memory is unmapped", func() bool { return first.hostRegions() == 0 })
			second.refusal = nil
			p.ok(abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: uint64(len(p.arena))}, &wire.MemHostAllocReply{})
			b.noneEarly(t)
		})
	}
}
