package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
)

// shelf is a Target in memory.
type shelf struct {
	mu       sync.Mutex
	contents map[image.Hash][]byte
	bytes    uint64 // of what was new
	fail     error
	// hung is a disk that hangs until it is closed; arrived gets a token of each Put that waits.
	hung    chan struct{}
	arrived chan struct{}
}

func newShelf() *shelf { return &shelf{contents: map[image.Hash][]byte{}} }

func (s *shelf) Put(_ context.Context, content []byte) (image.Hash, bool, error) {
	hash := image.Sum(content)
	if s.hung != nil {
		select {
		case s.arrived <- struct{}{}:
		default:
		}
		<-s.hung
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return hash, false, s.fail
	}
	if _, found := s.contents[hash]; found || hash.IsZero() {
		return hash, false, nil
	}
	s.contents[hash] = bytes.Clone(content)
	s.bytes += uint64(len(content))
	return hash, true, nil
}

func (s *shelf) Has(name image.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.contents[name]
	return found || name.IsZero()
}

// read returns a chunk's content.
func (s *shelf) read(t testing.TB, chunk image.Chunk) []byte {
	t.Helper()
	if chunk.Hash.IsZero() {
		return make([]byte, chunk.Bytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	content, found := s.contents[chunk.Hash]
	if !found || len(content) != int(chunk.Bytes) {
		t.Fatalf("chunk %s of %d bytes: got %d bytes", chunk.Hash, chunk.Bytes, len(content))
	}
	return content
}

// scatter(base, words, seed, n): each thread stores n words. A generator makes addresses and values
// from seed and the thread's number.
const scatterPTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry scatter(.param .u64 base, .param .u32 words, .param .u32 seed, .param .u32 n)
{
	.reg .pred %p;
	.reg .b32 %r<12>;
	.reg .b64 %a<4>;
	ld.param.u64 %a1, [base];
	ld.param.u32 %r1, [words];
	ld.param.u32 %r2, [seed];
	ld.param.u32 %r3, [n];
	mov.u32 %r4, %ctaid.x;
	mov.u32 %r5, %ntid.x;
	mov.u32 %r6, %tid.x;
	mad.lo.u32 %r7, %r4, %r5, %r6;
	mad.lo.u32 %r8, %r7, 0x9E3779B1, %r2;
L:
	mad.lo.u32 %r8, %r8, 1664525, 1013904223;
	shr.u32 %r9, %r8, 2;
	rem.u32 %r9, %r9, %r1;
	mul.wide.u32 %a2, %r9, 4;
	add.u64 %a2, %a1, %a2;
	st.global.u32 [%a2], %r8;
	sub.u32 %r3, %r3, 1;
	setp.ne.u32 %p, %r3, 0;
	@%p bra L;
	ret;
}
`

// machine is a software GPU with several memory ranges, an arena that kernels also write, and
// streams.
type machine struct {
	t       testing.TB
	context gpu.Context
	memory  gpu.Memory
	scatter gpu.Function
	ranges  []gpu.Range
	arena   *Host
	pinned  []gpu.Range
}

const arenaBase = 0x6000_0000_0000

func openMachine(t testing.TB, spec string, chunks int) *machine {
	t.Helper()
	backend, err := soft.Open(spec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { _ = backend.Close() })
	m := &machine{t: t}
	m.context, err = backend.NewContext(0, gpu.ContextOptions{})
	must(t, err)
	m.memory = m.context.Memory()
	module, err := m.context.LoadModule(gpu.Image{PTX: []string{scatterPTX}}, gpu.LoadOptions{})
	must(t, err)
	m.scatter, err = module.Function("scatter")
	must(t, err)
	m.arena = &Host{Address: arenaBase, Memory: make([]byte, 8<<20)}
	if chunks > 0 {
		m.grow(chunks)
	}
	return m
}

// grow maps another range, after a hole.
func (m *machine) grow(chunks int) gpu.Range {
	m.t.Helper()
	at := gpu.DefaultWindow(0, 1).Address
	if n := len(m.ranges); n > 0 {
		at = m.ranges[n-1].End() + gpu.ChunkBytes
	}
	r := gpu.Range{Address: at, Bytes: uint64(chunks) * gpu.ChunkBytes}
	must(m.t, m.memory.Map(r))
	m.ranges = append(m.ranges, r)
	return r
}

// pin makes part of the arena visible to kernels.
func (m *machine) pin(offset, bytes uint64) {
	m.t.Helper()
	must(m.t, m.memory.MapHost(arenaBase+offset, m.arena.Memory[offset:offset+bytes]))
	m.pinned = append(m.pinned, gpu.Range{Address: arenaBase + offset, Bytes: bytes})
}

func (m *machine) sources() []Source {
	return []Source{
		{Name: "gpu0", Memory: m.memory, Ranges: m.ranges},
		{Name: "arena", Memory: m.arena, Ranges: m.pinned},
	}
}

// launch returns work that stores words into a range.
func (m *machine) launch(r gpu.Range, seed, words uint32) gpu.Launch {
	var params [20]byte
	binary.LittleEndian.PutUint64(params[0:], r.Address)
	binary.LittleEndian.PutUint32(params[8:], uint32(r.Bytes/4))
	binary.LittleEndian.PutUint32(params[12:], seed)
	binary.LittleEndian.PutUint32(params[16:], words)
	return gpu.Launch{Function: m.scatter, Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{64, 1, 1}, Params: params[:]}
}

// scribble runs kernels of several streams that store at random, until it is stopped; then they
// have ended.
func (m *machine) scribble(streams int) (stop func()) {
	ctx, cancel := context.WithCancel(m.t.Context())
	var group sync.WaitGroup
	for n := range streams {
		stream, err := m.context.NewStream(gpu.StreamOptions{NonBlocking: true})
		must(m.t, err)
		r := rand.New(rand.NewPCG(uint64(n), 77))
		targets := append(append([]gpu.Range(nil), m.ranges...), m.pinned...)
		group.Go(func() {
			for ctx.Err() == nil {
				if err := stream.Submit(m.launch(targets[r.IntN(len(targets))], r.Uint32(), uint32(r.IntN(300)+1))); err != nil {
					m.t.Error(err)
					return
				}
				if err := stream.Synchronize(); err != nil {
					m.t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
		must(m.t, m.context.Synchronize())
	}
}

// contents reads all memory without the tested code.
func (m *machine) contents() map[string][]byte {
	m.t.Helper()
	out := map[string][]byte{}
	for _, source := range m.sources() {
		for _, r := range source.Ranges {
			content := make([]byte, r.Bytes)
			_, err := source.Memory.ReadAt(content, int64(r.Address))
			must(m.t, err)
			out[fmt.Sprintf("%s %#x", source.Name, r.Address)] = content
		}
	}
	return out
}

// saved returns the memory that entries describe, in the form of contents.
func (m *machine) saved(s *shelf, entries []image.Entry) map[string][]byte {
	m.t.Helper()
	out := map[string][]byte{}
	for _, source := range m.sources() {
		for _, r := range source.Ranges {
			content := make([]byte, r.Bytes)
			filled := uint64(0)
			for _, entry := range entries {
				for _, chunk := range entry.Chunks {
					if entry.Name == source.Name &&
						r.Contains(gpu.Range{Address: chunk.Address, Bytes: uint64(chunk.Bytes)}) {
						filled += uint64(copy(content[chunk.Address-r.Address:], s.read(m.t, chunk)))
					}
				}
			}
			if filled != r.Bytes {
				m.t.Errorf("%s %#x: %d of %d bytes were saved", source.Name, r.Address, filled, r.Bytes)
			}
			out[fmt.Sprintf("%s %#x", source.Name, r.Address)] = content
		}
	}
	return out
}

func (m *machine) same(what string, got, want map[string][]byte) {
	m.t.Helper()
	for name := range maps.Keys(want) {
		for at := 0; at < len(want[name]); at += gpu.ChunkBytes {
			end := min(at+gpu.ChunkBytes, len(want[name]))
			if !bytes.Equal(got[name][at:end], want[name][at:end]) {
				m.t.Errorf("%s: %s differs at +%#x", what, name, at)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
