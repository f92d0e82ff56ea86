package nested

import (
	"bytes"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/tests/harness"
)

// backendTest is a context of the backend, with the inner phosd that is its driver.
type backendTest struct {
	*testing.T
	inner   *api.Client
	backend *cuda.Backend
	context gpu.Context
	memory  gpu.Range
}

// openBackend opens the backend, in a process of this test.
func openBackend(t *testing.T) *backendTest {
	t.Helper()
	inner, err := api.Dial(os.Getenv(api.SocketVariable))
	b := &backendTest{T: t, inner: inner}
	b.must(err)
	t.Cleanup(func() { _ = inner.Close() })
	b.backend, err = cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	b.must(err)
	t.Cleanup(func() { b.must(b.backend.Close()) })
	b.context, err = b.backend.NewContext(0, gpu.ContextOptions{})
	b.must(err)
	b.memory = gpu.Range{Address: b.backend.Devices()[0].Window.Address, Bytes: 4 * gpu.ChunkBytes}
	b.must(b.context.Memory().Map(b.memory))
	return b
}

func (b *backendTest) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// unmapDirty unmaps memory after checking its content.
func (b *backendTest) unmapDirty(r gpu.Range, written []byte) {
	b.Helper()
	got := make([]byte, r.Bytes)
	_, err := b.context.Memory().ReadAt(got, int64(r.Address))
	b.must(err)
	if !bytes.Equal(got, written[:r.Bytes]) {
		b.Errorf("the content at %#x has changed", r.Address)
	}
	b.must(b.context.Memory().Unmap(r))
}

func (b *backendTest) stream() gpu.Stream {
	b.Helper()
	s, err := b.context.NewStream(gpu.StreamOptions{NonBlocking: true})
	b.must(err)
	return s
}

func (b *backendTest) submit(s gpu.Stream, works ...gpu.Work) {
	b.Helper()
	for _, work := range works {
		b.must(s.Submit(work))
	}
}

// completed returns the number of calls that the driver has received.
func (b *backendTest) completed() uint64 {
	b.Helper()
	status, err := b.inner.Daemon.Status(b.Context(), &api.StatusRequest{})
	b.must(err)
	return status.GetPrograms()[0].GetDescription().GetProgress().GetCallsCompleted()
}

// settledCalls returns the number of calls when no call is in flight. Calls without a waiter are
// answered in order, and before the next call with a waiter.
func (b *backendTest) settledCalls() uint64 {
	b.Helper()
	b.must(b.context.(gpu.Limiter).SetLimit(0, 8192))
	return b.completed()
}

// callsSince returns the number of calls since settledCalls returned before.
func (b *backendTest) callsSince(before uint64) uint64 {
	b.Helper()
	return b.settledCalls() - before - 1 // without the call that reads the number
}

// waitFor fails the test if happened does not return true in time.
func (b *backendTest) waitFor(what string, happened func() bool) {
	b.Helper()
	late := false
	for begun := time.Now(); !happened(); time.Sleep(time.Millisecond) {
		if late {
			b.Fatal(what)
		}
		late = time.Since(begun) > harness.Patience
	}
}

// heldStream returns a stream that the driver holds until open writes the word that it waits for.
func (b *backendTest) heldStream() (s gpu.Stream, open func()) {
	b.Helper()
	s = b.stream()
	word := b.memory.End() - 8
	write := func(value byte) {
		_, err := b.context.Memory().WriteAt([]byte{value, 0, 0, 0}, int64(word))
		b.must(err)
	}
	write(0)
	b.submit(
		s,
		gpu.MemoryOps{Ops: []gpu.MemoryOp{{Wait: true, Until: gpu.UntilEqual, Bytes: 4, Address: word, Value: 1}}},
	)
	return s, func() { write(1) }
}

func (b *backendTest) fill(at uint64, value byte) gpu.Work {
	return gpu.Fill{Address: b.memory.Address + at, Pattern: uint32(value), PatternBytes: 1, Columns: 1, Rows: 1}
}

// TestCompletionsDoNotBlock: a registered completion does not delay later work in the driver.
func TestCompletionsDoNotBlock(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	b := openBackend(t)
	s, open := b.heldStream()
	event, err := b.context.NewEvent(gpu.EventOptions{})
	b.must(err)
	before := b.settledCalls()
	const rounds = 50
	var done atomic.Int32
	for i := range rounds {
		b.submit(
			s,
			b.fill(uint64(i), 1),
			gpu.Record{Event: event},
			gpu.Completion{Func: func() { done.Add(1) }},
			b.fill(uint64(i), 2),
		)
	}
	b.waitFor("later work did not reach the driver", func() bool { return b.completed() >= before+3*rounds })
	if got := done.Load(); got != 0 || s.Idle() {
		t.Errorf("%d functions ran too early; idle: %v", got, s.Idle())
	}
	open()
	b.waitFor("no waiter got the error", func() bool { return done.Load() == rounds }) // without a query of the stream
	b.must(s.Synchronize())
	if !s.Idle() {
		t.Error("the stream is not idle after all work is done")
	}
}

// paced is host memory that reports each access before it happens.
type paced struct {
	bytes    []byte
	accessed func(at int64)
}

func (p *paced) ReadAt(into []byte, at int64) (int, error) {
	p.accessed(at)
	return copy(into, p.bytes[at:]), nil
}

func (p *paced) WriteAt(from []byte, at int64) (int, error) {
	p.accessed(at)
	return copy(p.bytes[at:], from), nil
}

// pattern returns bytes in which no two parts are equal.
func pattern(n int) []byte {
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(i) ^ byte(i>>8)*3 ^ byte(i>>16)*7
	}
	return bytes
}

func (b *backendTest) place(at uint64) gpu.Place { return gpu.Place{Address: b.memory.Address + at} }

// TestCopiesOverlap: the program's memory is read and written while the driver copies the previous
// or next part. Small copies take their bytes at once.
func TestCopiesOverlap(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	b := openBackend(t)
	t.Run("small", b.smallCopies)
	t.Run("up", b.upload)
	t.Run("down", b.download)
}

// smallCopies: the bytes are read at submission. The driver has the copies before the stream
// reaches them.
func (b *backendTest) smallCopies(t *testing.T) {
	const count, size = 40, 50000 // more than the initial staging memory
	s, open := b.heldStream()
	before := b.settledCalls()
	for i := range count {
		memory := bytes.Repeat([]byte{byte(i + 1)}, size)
		b.submit(s, gpu.Copy{
			Dst: b.place(
				uint64(i * size),
			), Src: gpu.Place{Host: &paced{memory, func(int64) {}}}, Extent: [3]uint64{size, 1, 1},
		})
		clear(memory)
	}
	b.waitFor("the copies did not reach the driver", func() bool { return b.completed() >= before+count })
	open()
	b.must(s.Synchronize())
	got := make([]byte, count*size)
	_, err := b.context.Memory().ReadAt(got, int64(b.memory.Address))
	b.must(err)
	for i, v := range got {
		if v != byte(i/size+1) {
			t.Fatalf("byte %d of copy %d is %d, a later value", i%size, i/size, v)
		}
	}
}

// upload: both buffers are filled while the stream is held.
func (b *backendTest) upload(t *testing.T) {
	const size = 3*gpu.ChunkBytes - 5000
	s, open := b.heldStream()
	var reads atomic.Int32
	source := &paced{pattern(size), func(int64) { reads.Add(1) }}
	b.submit(s, gpu.Copy{Dst: b.place(0), Src: gpu.Place{Host: source}, Extent: [3]uint64{size, 1, 1}}, b.fill(7, 0xee))
	b.waitFor("memory was not read before the stream reached it", func() bool { return reads.Load() == 2 })
	open()
	b.must(s.Synchronize())
	got := make([]byte, size)
	_, err := b.context.Memory().ReadAt(got, int64(b.memory.Address))
	b.must(err)
	want := bytes.Clone(source.bytes)
	want[7] = 0xee
	if !bytes.Equal(got, want) {
		t.Error("the copy differs")
	}
}

// download: when the first part is written, the driver already has the second.
func (b *backendTest) download(t *testing.T) {
	const size = 3*gpu.ChunkBytes - 5000
	want := pattern(size)
	_, err := b.context.Memory().WriteAt(want, int64(b.memory.Address))
	b.must(err)
	s := b.stream()
	before := b.settledCalls()
	target := &paced{bytes: make([]byte, size)}
	target.accessed = func(at int64) {
		if at == 0 { // a copy and an event for each of two
			b.waitFor("the second part waited for the first", func() bool { return b.completed() >= before+4 })
		}
	}
	b.submit(s, gpu.Copy{Dst: gpu.Place{Host: target}, Src: b.place(0), Extent: [3]uint64{size, 1, 1}})
	b.must(s.Synchronize())
	if !bytes.Equal(target.bytes, want) {
		t.Error("the copy differs")
	}
}

// TestGraphIsOneCall: graphs that the driver can run alone are given to it, and a launch is one
// call. A change to such a graph changes the driver's graph.
func TestGraphIsOneCall(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	b := openBackend(t)
	const count = 200
	var nodes []gpu.Node
	for i := range count {
		node := gpu.Node{Work: b.fill(uint64(i), byte(i))}
		if i%4 == 3 {
			node.Work = gpu.Copy{Dst: b.place(uint64(i)), Src: b.place(uint64(i - 1)), Extent: [3]uint64{1, 1, 1}}
			node.After = []int{i - 3, i - 2, i - 1}
		}
		nodes = append(nodes, node)
	}
	e, err := b.context.Instantiate(&gpu.Graph{Nodes: nodes})
	b.must(err)
	s := b.stream()
	before := b.settledCalls()
	const launches = 10
	for range launches {
		b.must(e.Launch(s))
	}
	if got := b.callsSince(before); got != launches {
		t.Errorf("%d launches of %d nodes took %d driver calls", launches, count, got)
	}
	before = b.settledCalls()
	b.must(e.Update(2, b.fill(2, 0xaa)))
	b.must(e.Launch(s))
	if got := b.callsSince(before); got != 2 {
		t.Errorf("a change and a launch took %d driver calls", got)
	}
	b.must(s.Synchronize())
	got := make([]byte, count)
	_, err = b.context.Memory().ReadAt(got, int64(b.memory.Address))
	b.must(err)
	for i, v := range got {
		want := byte(i)
		switch {
		case i == 2 || i == 3:
			want = 0xaa
		case i%4 == 3:
			want--
		}
		if v != want {
			t.Errorf("byte %d is %d, want %d", i, v, want)
		}
	}
	before = b.settledCalls()
	b.must(e.Close())
	if got := b.callsSince(before); got < 2 {
		t.Errorf("the driver's graph was not destroyed: %d calls", got)
	}
}

// TestPinnedIsDirect: a copy to pinned memory is one direct copy.
func TestPinnedIsDirect(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	b := openBackend(t)
	const size = 3 * gpu.ChunkBytes
	memory := b.context.Memory()
	want := pattern(size)
	_, err := memory.WriteAt(want, int64(b.memory.Address))
	b.must(err)
	got, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	b.must(err)
	defer func() { b.must(unix.Munmap(got)) }()
	unpin, err := memory.(gpu.Pinner).Pin(got)
	b.must(err)
	read := func() uint64 {
		before := b.settledCalls()
		_, err := memory.ReadAt(got, int64(b.memory.Address))
		b.must(err)
		if !bytes.Equal(got, want) {
			t.Error("the copy differs")
		}
		clear(got)
		return b.callsSince(before)
	}
	if calls := read(); calls != 2 { // the copy and its wait
		t.Errorf("got %d driver calls for pinned memory, want 2", calls)
	}
	b.must(unpin())
	if calls := read(); calls <= 2 {
		t.Errorf("got %d driver calls after unpinning", calls)
	}
}
