package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/hijack/abi"
)

var _ heap.Backing = (*Backing)(nil)

const spec = "soft:1,memory=256MiB"

func TestLazy(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // one background goroutine, so that its order is known
	s := save(t, []int{3, 0, 1, 5, 6}, map[int]bool{1: true})
	w := &watched{Contents: s.reader}
	l := New(w, s.tree)
	m := openGPU(t, spec).Memory()
	b := l.Backing("gpu0", m)
	must(t, b.Map(span(0, 4))) // chunk 2 is not in the image
	must(t, b.Map(span(5, 3))) // neither is chunk 7
	if w.reads() != 0 {
		t.Errorf("mapping read %d contents", w.reads())
	}
	for i, chunk := range []int{2, 1, 7} {
		if !bytes.Equal(read(t, m, chunk), make([]byte, gpu.ChunkBytes)) || w.reads() != 0 {
			t.Errorf("%d: chunk %d is not zeros, or %d contents were read", i, chunk, w.reads())
		}
	}
	if got := read(t, m, 5); !bytes.Equal(got, s.contents[5]) || w.reads() != 1 {
		t.Errorf("chunk 5 differs, or %d contents were read", w.reads())
	}
	if done, total := l.Progress(); done != gpu.ChunkBytes || total != 4*gpu.ChunkBytes {
		t.Errorf("progress %d of %d", done, total)
	}
	if tracker := m.(gpu.Tracker); tracker.Dirty(span(0, 4))[0]|tracker.Dirty(span(5, 3))[0] != 0 {
		t.Error("loading marks chunks as dirty")
	}
	must(t, l.Prefetch(t.Context()))
	var want []image.Hash
	for _, chunk := range []int{5, 3, 0, 6} {
		want = append(want, image.Sum(s.contents[chunk]))
	}
	if !slices.Equal(w.order, want) {
		t.Errorf("read in the order %v, want %v", w.order, want)
	}
	for _, chunk := range []int{0, 3, 6} {
		if !bytes.Equal(read(t, m, chunk), s.contents[chunk]) {
			t.Errorf("chunk %d differs", chunk)
		}
	}
	if done, total := l.Progress(); done != total || l.Failed() != nil {
		t.Errorf("progress %d of %d, %v", done, total, l.Failed())
	}
}

// TestTouchDoesNotWaitForOthers: while background loading is blocked at one chunk, another can be
// loaded.
func TestTouchDoesNotWaitForOthers(t *testing.T) {
	s := save(t, []int{0, 1, 2, 3}, nil)
	hold := make(chan struct{})
	w := &watched{Contents: s.reader, hold: map[image.Hash]chan struct{}{}}
	for _, chunk := range []int{0, 1} {
		w.hold[image.Sum(s.contents[chunk])] = hold
	}
	l := New(w, s.tree)
	m := openGPU(t, spec).Memory()
	must(t, l.Backing("gpu0", m).Map(span(0, 4)))
	ended := make(chan error)
	go func() { ended <- l.Prefetch(context.Background()) }()
	if !bytes.Equal(read(t, m, 3), s.contents[3]) {
		t.Error("chunk 3 differs")
	}
	select {
	case err := <-ended:
		t.Fatalf("background loading has ended: %v", err)
	default:
	}
	close(hold)
	must(t, <-ended)
	if !bytes.Equal(read(t, m, 0), s.contents[0]) {
		t.Error("chunk 0 differs")
	}
}

// mapped records the ranges that it maps.
type mapped struct {
	plain
	ranges []gpu.Range
}

func (m *mapped) Map(r gpu.Range) error {
	m.ranges = append(m.ranges, r)
	return m.plain.Map(r)
}

// TestMappedInOnePiece: memory that must be mapped in one piece to be shared is mapped in one
// piece.
func TestMappedInOnePiece(t *testing.T) {
	s := save(t, []int{0, 3}, nil)
	m := &mapped{plain: plain{openGPU(t, spec).Memory()}}
	must(t, New(s.reader, s.tree).Backing("gpu0", m).Map(span(0, 5)))
	if !slices.Equal(m.ranges, []gpu.Range{span(0, 5)}) {
		t.Errorf("mapped as %+v", m.ranges)
	}
	for chunk, want := range [][]byte{
		s.contents[0], make([]byte, gpu.ChunkBytes), make([]byte, gpu.ChunkBytes),
		s.contents[3],
	} {
		if !bytes.Equal(read(t, m, chunk), want) {
			t.Errorf("chunk %d differs", chunk)
		}
	}
}

func TestEager(t *testing.T) {
	for name, hide := range map[string]func(gpu.Memory) gpu.Memory{
		"lazy memory":  func(m gpu.Memory) gpu.Memory { return m },
		"plain memory": func(m gpu.Memory) gpu.Memory { return plain{m} },
	} {
		t.Run(name, func(t *testing.T) {
			s := save(t, []int{9, 8, 0, 1, 2, 3, 4}, map[int]bool{2: true})
			w := &watched{Contents: s.reader}
			l := New(w, s.tree)
			m := hide(openGPU(t, spec).Memory())
			b := l.Backing("gpu0", m)
			must(t, b.Map(span(0, 6)))
			must(t, b.Map(span(8, 2)))
			must(t, l.Eager(t.Context()))
			if w.reads() != 6 {
				t.Errorf("%d contents were read", w.reads())
			}
			for chunk, want := range s.contents {
				if !bytes.Equal(read(t, m, chunk), want) {
					t.Errorf("chunk %d differs", chunk)
				}
			}
			if done, total := l.Progress(); done != total || total != 6*gpu.ChunkBytes || w.reads() != 6 {
				t.Errorf("progress %d of %d; %d reads", done, total, w.reads())
			}
		})
	}
}

// TestComplete: memory mapped before the session is complete has the image's content, however often
// it is mapped; later it is zeros.
func TestComplete(t *testing.T) {
	s := save(t, []int{0, 1, 2}, nil)
	l := New(s.reader, s.tree)
	m := openGPU(t, spec).Memory()
	b := l.Backing("gpu0", m)
	for range 2 {
		must(t, b.Map(span(0, 3)))
		if !bytes.Equal(read(t, m, 1), s.contents[1]) {
			t.Error("chunk 1 differs")
		}
		must(t, b.Unmap(span(0, 3)))
	}
	must(t, b.Map(span(0, 2)))
	if err := b.Map(span(1, 2)); err == nil {
		t.Error("mapped twice")
	}
	if _, err := m.ReadAt(make([]byte, 1), int64(at(2))); !errors.Is(err, abi.IllegalAddress) {
		t.Errorf("a failed mapping left something: %v", err)
	}
	l.Complete()
	must(t, b.Unmap(span(0, 1)))
	must(t, b.Map(span(0, 1)))
	if !bytes.Equal(read(t, m, 0), make([]byte, gpu.ChunkBytes)) {
		t.Error("new memory has old content")
	}
	must(t, l.Prefetch(t.Context())) // chunk 2 is not mapped, which is not an error
	if !bytes.Equal(read(t, m, 0), make([]byte, gpu.ChunkBytes)) || !bytes.Equal(read(t, m, 1), s.contents[1]) {
		t.Error("background loading loaded the wrong chunks")
	}
	other := l.Backing("gpu7", openGPU(t, spec).Memory())
	must(t, other.Map(span(0, 1)))
}

// slowMemory is a memory whose first write waits until a second content is read.
type slowMemory struct {
	plain
	contents *watched
	once     sync.Once
	late     atomic.Bool
}

func (m *slowMemory) WriteAt(p []byte, address int64) (int, error) {
	m.once.Do(func() {
		for limit := time.Now().Add(time.Minute); m.contents.reads() < 2; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				m.late.Store(true)
				return
			}
		}
	})
	return m.plain.WriteAt(p, address)
}

// TestReadsOverlapUploads: if memory is filled at once, a chunk is read while the previous one is
// written to the device.
func TestReadsOverlapUploads(t *testing.T) {
	s := save(t, []int{0, 1, 2, 3}, map[int]bool{2: true})
	contents := &watched{Contents: s.reader}
	m := &slowMemory{plain: plain{openGPU(t, spec).Memory()}, contents: contents}
	must(t, New(contents, s.tree).Backing("gpu0", m).Map(span(0, 6)))
	if m.late.Load() {
		t.Error("reading does not overlap writing")
	}
	for chunk, want := range s.contents {
		if !bytes.Equal(read(t, m, chunk), want) {
			t.Errorf("chunk %d differs", chunk)
		}
	}
	if !bytes.Equal(read(t, m, 5), make([]byte, gpu.ChunkBytes)) {
		t.Error("memory that is not in the image is not zero")
	}
}

// TestDamage: an unreadable chunk is named in the error, poisons the context that touches it, and
// is never read as zeros.
func TestDamage(t *testing.T) {
	s := save(t, []int{0, 1, 2}, nil)
	s.damage(t, 1)
	l := New(s.reader, s.tree)
	c := openGPU(t, spec)
	m := c.Memory()
	must(t, l.Backing("gpu0", m).Map(span(0, 3)))
	if err := l.Prefetch(t.Context()); !errors.Is(err, image.ErrMalformed) {
		t.Errorf("prefetch: %v", err)
	}
	if !bytes.Equal(read(t, m, 2), s.contents[2]) {
		t.Error("undamaged chunks were not loaded")
	}
	_, err := m.ReadAt(make([]byte, 1), int64(at(1))+5)
	if gpu.Code(err) != abi.ECCUncorrectable {
		t.Errorf("touch: %v", err)
	}
	for _, part := range []string{image.Sum(s.contents[1]).String(), fmt.Sprintf("%#x", at(1)), s.pack.Name(), "gpu0"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	stream, err := c.NewStream(gpu.StreamOptions{})
	must(t, err)
	must(t, stream.Submit(gpu.Fill{Address: at(1), Pattern: 1, PatternBytes: 4, Columns: 1, Rows: 1}))
	if err := stream.Synchronize(); gpu.Code(err) != abi.ECCUncorrectable {
		t.Errorf("work: %v", err)
	}
	if gpu.Code(c.Fault()) != abi.ECCUncorrectable {
		t.Errorf("context: %v", c.Fault())
	}
}

// TestKernelTouchesDamage: a kernel gets the same fault as a copy.
func TestKernelTouchesDamage(t *testing.T) {
	s := save(t, []int{0}, nil)
	s.damage(t, 0)
	l := New(s.reader, s.tree)
	c := openGPU(t, spec)
	must(t, l.Backing("gpu0", c.Memory()).Map(span(0, 1)))
	module, err := c.LoadModule(gpu.Image{PTX: []string{`.version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 a) { .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [a]; ld.global.u32 %r, [%a]; st.global.u32 [%a], %r; ret; }`}}, gpu.LoadOptions{})
	must(t, err)
	touch, err := module.Function("touch")
	must(t, err)
	stream, err := c.NewStream(gpu.StreamOptions{})
	must(t, err)
	must(t, stream.Submit(gpu.Launch{
		Function: touch, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1},
		Params: binary.LittleEndian.AppendUint64(nil, at(0)),
	}))
	err = stream.Synchronize()
	if gpu.Code(err) != abi.ECCUncorrectable || !strings.Contains(err.Error(), s.pack.Name()) ||
		!strings.Contains(err.Error(), "touch") {
		t.Errorf("kernel: %v", err)
	}
}

func TestFill(t *testing.T) {
	s := save(t, []int{2, 0, 1}, map[int]bool{1: true})
	l := New(s.reader, s.tree)
	arena := make([]byte, 3*gpu.ChunkBytes)
	place := func(address, bytes uint64) ([]byte, error) { return arena[address-base:][:bytes], nil }
	must(t, l.Fill(t.Context(), "gpu0", place))
	for chunk, want := range s.contents {
		if !bytes.Equal(arena[chunk*gpu.ChunkBytes:][:gpu.ChunkBytes], want) {
			t.Errorf("chunk %d differs", chunk)
		}
	}
	if err := l.Fill(t.Context(), "arena", place); !errors.Is(err, ErrNoEntry) {
		t.Errorf("no entry: %v", err)
	}
	nowhere := errors.New("nowhere")
	refuse := func(uint64, uint64) ([]byte, error) { return nil, nowhere }
	if err := l.Fill(t.Context(), "gpu0", refuse); !errors.Is(err, nowhere) {
		t.Errorf("unmapped span: %v", err)
	}
}

// TestLengths: a tree with wrong lengths of contents is rejected.
func TestLengths(t *testing.T) {
	for _, bytes := range []uint32{512, gpu.ChunkBytes - 512} {
		s := save(t, []int{0}, nil)
		s.tree.Entries[0].Chunks[0].Bytes = bytes
		m := openGPU(t, spec).Memory()
		l := New(s.reader, s.tree)
		must(t, l.Backing("gpu0", m).Map(span(0, 1)))
		if err := l.Eager(t.Context()); !errors.Is(err, image.ErrMalformed) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// TestRunsWhileLoading: the same work on several streams gives the same result on loaded memory and
// on memory that is still being loaded.
func TestRunsWhileLoading(t *testing.T) {
	const chunks = 24
	order := rand.New(rand.NewPCG(5, 5)).Perm(chunks)
	s := save(t, order, map[int]bool{4: true, 9: true})
	var results [2][]byte
	for i, lazily := range []bool{false, true} {
		l := New(s.reader, s.tree)
		c := openGPU(t, spec)
		must(t, l.Backing("gpu0", c.Memory()).Map(span(0, chunks)))
		ended := make(chan error, 1)
		if lazily {
			go func() { ended <- l.Prefetch(context.Background()) }()
		} else {
			ended <- l.Eager(t.Context())
		}
		// Each stream writes its own chunks, and reads those that no stream writes.
		r := rand.New(rand.NewPCG(6, 6))
		for lane := range 3 {
			stream, err := c.NewStream(gpu.StreamOptions{NonBlocking: true})
			must(t, err)
			own := at(lane * 4)
			for range 60 {
				n := uint64(r.IntN(gpu.ChunkBytes))
				from, to := at(12)+r.Uint64N(11*gpu.ChunkBytes), own+r.Uint64N(3*gpu.ChunkBytes)
				must(
					t,
					stream.Submit(
						gpu.Copy{
							Dst:    gpu.Place{Address: to},
							Src:    gpu.Place{Address: from},
							Extent: [3]uint64{n, 1, 1},
						},
					),
				)
				must(
					t,
					stream.Submit(
						gpu.Fill{
							Address:      own + r.Uint64N(4*gpu.ChunkBytes-4096),
							Pattern:      r.Uint32(),
							PatternBytes: 1,
							Columns:      4096,
							Rows:         1,
						},
					),
				)
			}
		}
		must(t, c.Synchronize())
		must(t, <-ended)
		for chunk := range chunks {
			results[i] = append(results[i], read(t, c.Memory(), chunk)...)
		}
	}
	if !bytes.Equal(results[0], results[1]) {
		t.Error("the results differ")
	}
	if bytes.Equal(results[0][:gpu.ChunkBytes], s.contents[0]) {
		t.Error("nothing was computed")
	}
}
