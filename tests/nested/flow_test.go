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

// backendTest is a context of the backend, and the phosd that is its driver.
type backendTest struct {
	*testing.T
	inner   *api.Client
	backend *cuda.Backend
	context gpu.Context
	memory  gpu.Range
}

// openBackend opens the backend, in a process that the test has for itself.
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

// unmapDirty unmaps memory in which what was written is still.
func (b *backendTest) unmapDirty(r gpu.Range, written []byte) {
	b.Helper()
	got := make([]byte, r.Bytes)
	_, err := b.context.Memory().ReadAt(got, int64(r.Address))
	b.must(err)
	if !bytes.Equal(got, written[:r.Bytes]) {
		b.Errorf("the content at %#x is lost", r.Address)
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

// completed is how many calls the driver has had.
func (b *backendTest) completed() uint64 {
	b.Helper()
	status, err := b.inner.Daemon.Status(b.Context(), &api.StatusRequest{})
	b.must(err)
	return status.GetPrograms()[0].GetDescription().GetProgress().GetCallsCompleted()
}

// settledCalls returns when no call is in flight. Some calls have no waiter, but they are answered in
// order and before the next call that has one.
func (b *backendTest) settledCalls() uint64 {
	b.Helper()
	b.must(b.context.(gpu.Limiter).SetLimit(0, 8192))
	return b.completed()
}

// callsSince is how many calls the driver has had since calls was asked.
func (b *backendTest) callsSince(before uint64) uint64 {
	b.Helper()
	return b.settledCalls() - before - 1 // that of calls itself
}

// waitFor fails the test if something does not happen soon.
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

// heldStream is a stream that the driver holds until opened writes the word it waits for.
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

// TestCompletionsDoNotBlock: what the session wants to be told does not keep later work from the driver.
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
	var told atomic.Int32
	for i := range rounds {
		b.submit(
			s,
			b.fill(uint64(i), 1),
			gpu.Record{Event: event},
			gpu.Tell{Func: func() { told.Add(1) }},
			b.fill(uint64(i), 2),
		)
	}
	b.waitFor("later work does not come to the driver", func() bool { return b.completed() >= before+3*rounds })
	if got := told.Load(); got != 0 || s.Idle() {
		t.Errorf("%d functions ran before what they come after; idle: %v", got, s.Idle())
	}
	open()
	b.waitFor("no waiter got the error", func() bool { return told.Load() == rounds }) // without asking the stream
	b.must(s.Synchronize())
	if !s.Idle() {
		t.Error("not idle when all is done")
	}
}

// paced is host memory of which each access is told of before it is done.
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

// pattern is bytes of which no two parts are the same.
func pattern(n int) []byte {
	bytes := make([]byte, n)
	for i := range bytes {
		bytes[i] = byte(i) ^ byte(i>>8)*3 ^ byte(i>>16)*7
	}
	return bytes
}

func (b *backendTest) place(at uint64) gpu.Place { return gpu.Place{Address: b.memory.Address + at} }

// TestCopiesOverlap: the program's memory is read and written while the driver copies what was read
// before, or is to be written next; and small copies are taken at once.
func TestCopiesOverlap(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	b := openBackend(t)
	t.Run("small", b.smallCopies)
	t.Run("up", b.upload)
	t.Run("down", b.download)
}

// smallCopies: their bytes are those of the submission, and the driver has the copies before the
// stream gets there.
func (b *backendTest) smallCopies(t *testing.T) {
	const count, size = 40, 50000 // more than there is staging memory for at first
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
	b.waitFor("the copies do not come to the driver", func() bool { return b.completed() >= before+count })
	open()
	b.must(s.Synchronize())
	got := make([]byte, count*size)
	_, err := b.context.Memory().ReadAt(got, int64(b.memory.Address))
	b.must(err)
	for i, v := range got {
		if v != byte(i/size+1) {
			t.Fatalf("byte %d of copy %d is %d", i%size, i/size, v)
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
	b.waitFor("memory is read only when the stream gets there", func() bool { return reads.Load() == 2 })
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

// download: when the first part is written, the driver has been given the second.
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
			b.waitFor("the second part waits for the first", func() bool { return b.completed() >= before+4 })
		}
	}
	b.submit(s, gpu.Copy{Dst: gpu.Place{Host: target}, Src: b.place(0), Extent: [3]uint64{size, 1, 1}})
	b.must(s.Synchronize())
	if !bytes.Equal(target.bytes, want) {
		t.Error("the copy differs")
	}
}

// TestGraphIsOneCall: what the driver can do alone, it gets as a graph, and a launch of that is one
// call of it. Where something is changed, it is changed in the driver's graph.
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
		t.Errorf("%d launches of %d nodes are %d calls of the driver", launches, count, got)
	}
	before = b.settledCalls()
	b.must(e.Update(2, b.fill(2, 0xaa)))
	b.must(e.Launch(s))
	if got := b.callsSince(before); got != 2 {
		t.Errorf("a change and a launch are %d calls of the driver", got)
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
			t.Errorf("byte %d is %d, not %d", i, v, want)
		}
	}
	before = b.settledCalls()
	b.must(e.Close())
	if got := b.callsSince(before); got < 2 {
		t.Errorf("the driver's graph is not given back: %d calls", got)
	}
}

// TestPinnedIsDirect: what is copied out to pinned memory goes there at once, in one copy.
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
	if calls := read(); calls != 2 { // the copy, and waiting for it
		t.Errorf("%d calls of the driver for memory that is pinned", calls)
	}
	b.must(unpin())
	if calls := read(); calls <= 2 {
		t.Errorf("%d calls of the driver for memory that is no longer pinned", calls)
	}
}
