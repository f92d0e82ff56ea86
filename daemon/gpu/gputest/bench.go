package gputest

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// bench is a backend with one context. It allocates memory from the beginning of the window and
// never reuses it.
type bench struct {
	t       *testing.T
	backend gpu.Backend
	context gpu.Context
	next    uint64

	mu     sync.Mutex
	output strings.Builder // what kernels printed
}

func newBench(t *testing.T, backend gpu.Backend) *bench {
	b := &bench{t: t, backend: backend, next: windowOf(backend).Address}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("close backend: %v", err)
		}
	})
	b.context = b.newContext()
	return b
}

// windowOf returns the window of the first device.
func windowOf(backend gpu.Backend) gpu.Range {
	return gpu.WindowOf(backend.Devices(), 0)
}

func (b *bench) newContext() gpu.Context {
	b.t.Helper()
	c, err := b.backend.NewContext(0, gpu.ContextOptions{Output: func(text []byte) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.output.Write(text)
	}})
	b.must(err)
	return c
}

// printed returns all that kernels have printed so far.
func (b *bench) printed() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.output.String()
}

// must ends the test if err is not nil.
func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// want fails the test unless err has this code in its chain.
func (b *bench) want(what string, err, code error) {
	b.t.Helper()
	if !errors.Is(err, code) {
		b.t.Errorf("%s: got %v, want %v", what, err, code)
	}
}

// driven reports whether the backend uses a driver. A driver keeps tables in device memory, and may
// do anything in cases that CUDA leaves undefined.
func (b *bench) driven() bool {
	_, contained := b.backend.(gpu.FaultContainer)
	return !contained
}

// tableBytes is more than a driver needs for tables of a few mappings, and less than the tests map
// to check that memory is freed.
const tableBytes = 16 << 20

// free checks how much memory the device has free.
func (b *bench) free(when string, got, want uint64) {
	b.t.Helper()
	var slack uint64
	if b.driven() {
		slack = tableBytes
	}
	if got+slack < want || got > want+slack {
		b.t.Errorf("%s: got %d bytes free, want %d", when, got, want)
	}
}

// reclaim reclaims all freed memory. The device must be idle.
func (b *bench) reclaim() {
	b.t.Helper()
	reclaimer, ok := b.context.Memory().(gpu.ReclaimableMemory)
	for done := !ok; !done; {
		var err error
		done, err = reclaimer.Reclaim()
		b.must(err)
	}
}

// alloc maps whole chunks for at least this many bytes and returns their address.
func (b *bench) alloc(bytes int) uint64 {
	b.t.Helper()
	r := gpu.Range{Address: b.next, Bytes: uint64(bytes+gpu.ChunkBytes-1) &^ (gpu.ChunkBytes - 1)}
	b.must(b.context.Memory().Map(r))
	b.next = r.End()
	return r.Address
}

// load allocates memory and fills it.
func (b *bench) load(data []byte) uint64 {
	b.t.Helper()
	address := b.alloc(len(data))
	b.write(address, data)
	return address
}

func (b *bench) write(address uint64, data []byte) {
	b.t.Helper()
	if n, err := b.context.Memory().WriteAt(data, int64(address)); err != nil || n != len(data) {
		b.t.Fatalf("write %d bytes at %#x: %d, %v", len(data), address, n, err)
	}
}

func (b *bench) read(address uint64, n int) []byte {
	b.t.Helper()
	data := make([]byte, n)
	if n, err := b.context.Memory().ReadAt(data, int64(address)); err != nil || n != len(data) {
		b.t.Fatalf("read %d bytes at %#x: %d, %v", len(data), address, n, err)
	}
	return data
}

// newStream returns a non-blocking stream. An error ends the test.
func (b *bench) newStream() gpu.Stream {
	b.t.Helper()
	s, err := b.context.NewStream(gpu.StreamOptions{NonBlocking: true})
	b.must(err)
	return s
}

// newEvent returns an event, with timing or without. An error ends the test.
func (b *bench) newEvent(timing bool) gpu.Event {
	b.t.Helper()
	e, err := b.context.NewEvent(gpu.EventOptions{Timing: timing})
	b.must(err)
	return e
}

// submit queues work in a stream, in order. A refusal ends the test.
func (b *bench) submit(s gpu.Stream, works ...gpu.Work) {
	b.t.Helper()
	for _, work := range works {
		b.must(s.Submit(work))
	}
}

// run submits work to a new stream and waits for it.
func (b *bench) run(works ...gpu.Work) {
	b.t.Helper()
	s := b.newStream()
	b.submit(s, works...)
	b.must(s.Synchronize())
	b.must(s.Close())
}

// same compares bytes and shows the first difference.
func (b *bench) same(what string, got, want []byte) {
	b.t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			b.t.Errorf("%s: differs from byte %d of %d on: got % x, want % x", what, i, len(want),
				got[min(i, len(got)):min(i+8, len(got))], want[i:min(i+8, len(want))])
			return
		}
	}
}

// noise returns pseudo-random bytes, the same in every run.
func noise(seed uint64, n int) []byte {
	data := make([]byte, n)
	generator := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = generator.Read(data)
	return data
}

// host is program memory: an address space that begins at 0.
type host []byte

func (h host) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at > int64(len(h)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, h[at:])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

func (h host) WriteAt(p []byte, at int64) (int, error) {
	if at < 0 || at > int64(len(h)) {
		return 0, io.ErrShortWrite
	}
	n := copy(h[at:], p)
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// linear returns a copy without pitches.
func linear(dst, src gpu.Place, n int) gpu.Copy {
	return gpu.Copy{Dst: dst, Src: src, Extent: [3]uint64{uint64(n), 1, 1}}
}

func device(address uint64) gpu.Place { return gpu.Place{Address: address} }

func program(h host, offset uint64) gpu.Place { return gpu.Place{Host: h, Address: offset} }
