package nested

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/hijack/abi"
)

// wantBytes checks that all bytes of a range have a value, read through a context of either GPU.
func (d *denied) wantBytes(context gpu.Context, r gpu.Range, value byte) {
	d.Helper()
	got := make([]byte, r.Bytes)
	_, err := context.Memory().ReadAt(got, int64(r.Address))
	d.must(err)
	if !bytes.Equal(got, bytes.Repeat([]byte{value}, len(got))) {
		d.Errorf("at %#x: got %d, %d, ... %d, want all %d", r.Address, got[0], got[1], got[len(got)-1], value)
	}
}

// fillAll fills a range through a new stream of a context. It returns how many driver streams that
// took.
func (d *denied) fillAll(context gpu.Context, r gpu.Range, value byte) (streams uint64) {
	d.Helper()
	s, err := context.NewStream(gpu.StreamOptions{NonBlocking: true})
	d.must(err)
	d.driver.reset()
	d.submit(s, gpu.Fill{Address: r.Address, Pattern: uint32(value), PatternBytes: 1, Columns: r.Bytes, Rows: 1})
	d.must(s.Synchronize())
	streams = d.driver.counts()["cuStreamCreateWithPriority"]
	d.closeStream(s)
	return streams
}

// closeStream closes a stream and returns when the driver has destroyed it.
func (d *denied) closeStream(s gpu.Stream) {
	d.Helper()
	d.driver.reset()
	d.must(s.Close())
	d.waitFor("the stream was not destroyed", func() bool { return d.driver.counts()["cuStreamDestroy_v2"] > 0 })
}

// sharing exports memory and maps it a second time, accessible to the other GPU too.
func (d *denied) sharing() {
	memory, whole, there := d.context.Memory(), d.chunks(0, 0, 1), d.chunks(0, 2, 1)
	sharer := memory.(gpu.Sharer)
	d.must(memory.Map(whole))
	var file *os.File
	d.failsOnce("cuMemExportToShareableHandle", 1, func() (err error) {
		file, _, err = sharer.Share(whole)
		return err
	})
	defer file.Close()
	d.must(d.other.(gpu.Peering).AllowPeer(0, true))
	d.must(memory.Map(there))
	d.must(memory.Unmap(there))
	d.wantError(
		"where memory awaits reclaim",
		sharer.Import(there, file, 0),
		abi.AlreadyMapped,
		"is not reclaimed until the GPU is idle",
	)
	d.reclaimAll()
	d.failsOnce("cuMemMap", 1, func() error { return sharer.Import(there, file, 0) })
	if visits := d.fillAll(d.other, there, 5); visits != 0 {
		d.Errorf("the other GPU cannot access the imported memory")
	}
	d.wantBytes(d.context, whole, 5)
	d.must(d.other.(gpu.Peering).AllowPeer(0, false))
	beside := d.chunks(0, 4, 1)
	for i, r := range []gpu.Range{beside, there, whole} {
		if r == beside {
			d.must(memory.Map(r))
		}
		d.must(memory.Unmap(r))
		if kept := memory.(gpu.ReclaimableMemory).Reclaimable(); kept != uint64(i+1)*gpu.ChunkBytes {
			d.Errorf("%d bytes wait for reclaim after %d chunks were freed", kept, i+1)
		}
	}
	d.reclaimAll()
}

// reclaimAll reclaims all freed memory.
func (d *denied) reclaimAll() {
	d.Helper()
	for done := false; !done; {
		var err error
		done, err = d.context.Memory().(gpu.ReclaimableMemory).Reclaim()
		d.must(err)
	}
	if kept := d.context.Memory().(gpu.ReclaimableMemory).Reclaimable(); kept != 0 {
		d.Errorf("%d bytes were not reclaimed", kept)
	}
}

// reclaiming returns freed memory in pieces, and moves the used chunks. If the driver has no memory
// for the move, nothing changes.
func (d *denied) reclaiming() {
	memory := d.context.Memory()
	reclaimer := memory.(gpu.ReclaimableMemory)
	d.reclaimAll()
	const count = 17
	for i := range uint64(count) {
		d.must(memory.Map(d.chunks(0, 2*i, 1)))
	}
	for i := range uint64(count) {
		d.must(memory.Unmap(d.chunks(0, 2*i, 1)))
	}
	d.driver.reset()
	if done, err := reclaimer.Reclaim(); err != nil || done {
		d.Errorf("everything was reclaimed at once: %v", err)
	}
	d.reclaimAll()
	if calls := d.driver.counts(); calls["cuMemUnmap"] != count || calls["cuMemRelease"] != count {
		d.Errorf("not all of %d pieces were reclaimed: %v", count, calls)
	}

	all := d.chunks(0, 0, 4)
	d.must(memory.Map(all))
	want := pattern(int(all.Bytes))
	_, err := memory.WriteAt(want, int64(all.Address))
	d.must(err)
	d.must(memory.Unmap(d.chunks(0, 1, 1)))
	d.failsOnce("cuMemCreate", 2, reclaimer.Compact)
	for _, left := range []gpu.Range{d.chunks(0, 0, 1), d.chunks(0, 2, 2)} {
		d.driver.reset()
		d.must(reclaimer.Consolidate(left))
		if calls := d.driver.counts(); len(calls) > 0 {
			d.Errorf("adjacent memory was moved: %v", calls)
		}
		d.unmapDirty(left, want[left.Address-all.Address:])
	}
	d.reclaimAll()
}

// plainMemory tests drivers that cannot export memory to other processes, or do not allow peer
// access.
func (d *denied) plainMemory() {
	var mapped gpu.Range
	open := func() (*cuda.Backend, gpu.Context) {
		b, err := d.open(cuda.Options{})
		d.must(err)
		context, err := b.NewContext(0, gpu.ContextOptions{})
		d.must(err)
		mapped = gpu.Range{Address: b.Devices()[0].Window.Address, Bytes: gpu.ChunkBytes}
		return b, context
	}
	share := func(context gpu.Context) error {
		_, _, err := context.Memory().(gpu.Sharer).Share(mapped)
		return err
	}
	b, context := open()
	use := func() error { return context.Memory().Map(mapped) }
	d.wantError(
		"no memory at all",
		d.failsClean("cuMemCreate", 1, alwaysThis, abi.NotPermitted, use),
		abi.NotPermitted,
		"",
	)
	d.driver.fail("cuMemCreate", 1, once, abi.NotPermitted)
	d.must(use())
	d.driver.reset()
	d.wantError(
		"share",
		share(context),
		abi.NotSupported,
		"the driver cannot allocate shareable memory there (CUDA_ERROR_NOT_PERMITTED)",
	)
	d.must(b.Close())

	// The attributes are queried by number, from 0 on.
	d.driver.fail(
		"cuDeviceGetAttribute",
		uint64(abi.AttrHandleTypePOSIXFileDescriptorSupported)+1,
		once,
		abi.InvalidValue,
	)
	b, context = open()
	d.driver.fail("cuMemCreate", 1, once, abi.NotPermitted)
	d.wantError("plain memory", use(), abi.NotPermitted, "") // no other kind of memory to try
	d.driver.reset()
	d.must(use())
	d.wantError(
		"share",
		share(context),
		abi.NotSupported,
		"the driver cannot share memory of this GPU with other processes",
	)
	d.must(b.Close())

	d.driver.fail("cuDeviceCanAccessPeer", 1, alwaysThis, abi.InvalidDevice)
	b, context = open()
	d.driver.reset()
	d.wantError("allow", context.(gpu.Peering).AllowPeer(1, true), abi.PeerAccessUnsupported, "")
	d.must(b.Close())
}

// peers gives the first GPU access to the other one, which has memory and a variable of the
// program.
func (d *denied) peers() {
	here, theirs := d.context.(gpu.Peering), []gpu.Range{d.chunks(1, 0, 1), d.chunks(1, 2, 1)}
	for _, r := range theirs {
		d.must(d.other.Memory().Map(r))
	}
	module, err := d.other.LoadModule(gpu.Image{PTX: []string{codeOf(0)}}, gpu.LoadOptions{})
	d.must(err)
	check := func(value byte, visits uint64) {
		d.Helper()
		for _, r := range theirs {
			if got := d.fillAll(d.context, r, value); got != visits {
				d.Errorf("%d: got %d visits of the other GPU, want %d", value, got, visits)
			}
			d.wantBytes(d.other, r, value)
		}
	}
	allow := func(yes bool) func() error { return func() error { return here.AllowPeer(1, yes) } }
	check(1, 1)
	d.driver.fail("cuMemSetAccess", 2, once, abi.OutOfMemory)
	d.wantError("allow", allow(true)(), abi.OutOfMemory, "")
	if calls := d.driver.counts()["cuMemSetAccess"]; calls != 3 {
		d.Errorf("the driver refused one of two access changes; the rollback took %d calls", calls)
	}
	check(2, 1)
	d.wantError(
		"join",
		d.failsClean("cuCtxEnablePeerAccess", 1, once, abi.OutOfMemory, allow(true)),
		abi.OutOfMemory,
		"",
	)
	check(3, 1)
	d.must(allow(true)())
	check(4, 0)
	d.wantError("forbid", d.failsClean("cuMemSetAccess", 1, once, abi.OutOfMemory, allow(false)), abi.OutOfMemory, "")
	check(5, 0)
	d.must(allow(false)())
	check(6, 1)
	d.must(module.Close())
	for _, r := range theirs {
		d.must(d.other.Memory().Unmap(r))
	}
}

// visits are operations on the other GPU's memory that this GPU cannot access.
func (d *denied) visits() {
	theirs := d.chunks(1, 0, 1)
	d.must(d.other.Memory().Map(theirs))
	for i, call := range []string{
		"cuStreamCreateWithPriority", "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuMemsetD8Async",
	} {
		context, end := d.newContext(gpu.ContextOptions{})
		s, err := context.NewStream(gpu.StreamOptions{NonBlocking: true})
		d.must(err)
		value := uint32(i + 1)
		d.failsOnce(call, 1, func() error {
			return s.Submit(
				gpu.Fill{Address: theirs.Address, Pattern: value, PatternBytes: 1, Columns: theirs.Bytes, Rows: 1},
			)
		})
		d.must(s.Synchronize())
		d.wantBytes(d.other, theirs, byte(value))
		end()
	}
	d.must(d.other.Memory().Unmap(theirs))
}

func (d *denied) aliases() {
	home, shown := d.context.Memory(), d.chunks(0, 4, 1)
	first := gpu.Range{Address: d.memory.Address, Bytes: gpu.ChunkBytes}
	d.failsOnce("cuMemSetAccess", 1, func() error { return home.(gpu.Aliaser).Alias(shown.Address, home, first, true) })
	other := d.other.Memory().(gpu.Aliaser)
	d.failsOnce("cuMemSetAccess", 1, func() error { return other.Alias(shown.Address, home, first, true) })
	d.must(other.Unalias(shown.Address))
	d.fillAll(d.context, first, 8)
	d.wantBytes(d.context, shown, 8)
	d.wantError("alias", home.Unmap(shown), abi.NotMapped, "was not mapped by Map")
	d.must(home.(gpu.Aliaser).Unalias(shown.Address))
}

// hosts tests host memory that the driver does not register again, or has lost.
func (d *denied) hosts() {
	var log bytes.Buffer
	b, err := cuda.Open(cuda.Options{Library: d.driver.library, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	d.must(err)
	defer func() { d.must(b.Close()) }()
	var contexts [2]gpu.Context
	for i := range contexts {
		contexts[i], err = b.NewContext(i, gpu.ContextOptions{})
		d.must(err)
	}
	file, err := os.Create(filepath.Join(d.TempDir(), "shared"))
	d.must(err)
	defer file.Close()
	d.must(file.Truncate(gpu.ChunkBytes))
	pages, err := unix.Mmap(int(file.Fd()), 0, gpu.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	d.must(err)
	defer func() { d.must(unix.Munmap(pages)) }()
	at := uint64(reflect.ValueOf(pages).Pointer())
	for _, context := range contexts {
		d.must(context.Memory().MapHost(at, pages))
	}
	d.driver.fail("cuMemHostRegister_v2", 1, once, abi.OutOfMemory)
	d.must(contexts[0].Close())
	d.driver.reset()
	if !strings.Contains(log.String(), "cannot register host memory again") || !strings.Contains(log.String(), "gpu=1") {
		d.Errorf("the log does not name the lost memory: %s", log.String())
	}
	d.driver.fail("cuMemHostUnregister", 1, once, abi.HostMemoryNotRegistered)
	d.must(contexts[1].Memory().UnmapHost(at))
	d.driver.reset()
}

// after returns a graph whose nodes run one after the other.
func after(works ...gpu.Work) *gpu.Graph {
	graph := &gpu.Graph{}
	for i, work := range works {
		node := gpu.Node{Work: work}
		if i > 0 {
			node.After = []int{i - 1}
		}
		graph.Nodes = append(graph.Nodes, node)
	}
	return graph
}

// rows is a fill of several rows without gaps.
func (d *denied) rows(value byte) gpu.Fill {
	return gpu.Fill{
		Address:      d.memory.Address,
		Pattern:      uint32(value),
		PatternBytes: 1,
		Columns:      64,
		Rows:         4,
		RowPitch:     64,
	}
}

func (d *denied) graphs() {
	d.updates()
	d.closedEvents()
	d.closedStreams()
}

// updates changes nodes in three ways and back: to what the driver can change, to what it cannot
// change, and to what its graphs cannot contain.
func (d *denied) updates() {
	const size = 256
	s, source := d.stream(), &paced{bytes.Repeat([]byte{77}, size), func(int64) {}}
	box := func(src gpu.Place) gpu.Copy {
		return gpu.Copy{Dst: d.place(size), Src: src, Extent: [3]uint64{size, 1, 1}}
	}
	none := gpu.Fill{Address: d.memory.Address, PatternBytes: 1}
	executable, err := d.context.Instantiate(after(d.rows(1), box(d.place(0)), gpu.Empty{}, none))
	d.must(err)
	check := func(first, second byte, launches uint64) {
		d.Helper()
		d.driver.reset()
		d.must(executable.Launch(s))
		d.must(s.Synchronize())
		if got := d.driver.counts()["cuGraphLaunch"]; got != launches {
			d.Errorf("the driver launched %d graphs, want %d", got, launches)
		}
		d.wantBytes(d.context, gpu.Range{Address: d.memory.Address, Bytes: size}, first)
		d.wantBytes(d.context, gpu.Range{Address: d.memory.Address + size, Bytes: size}, second)
	}
	check(1, 1, 1)
	d.must(executable.Update(2, gpu.Empty{}))
	d.must(executable.Update(3, none))
	d.driver.fail("cuGraphExecMemsetNodeSetParams", 1, once, abi.NotSupported)
	d.must(executable.Update(0, d.rows(2)))
	check(2, 2, 1)
	d.must(executable.Update(1, box(gpu.Place{Host: source})))
	check(2, 77, 0)
	d.must(executable.Update(1, box(d.place(0))))
	d.must(executable.Update(0, d.rows(3)))
	check(3, 3, 1)
	d.must(executable.Close())

	executable, err = d.context.Instantiate(after(d.rows(4), box(gpu.Place{Host: source})))
	d.must(err)
	check(4, 77, 0)
	d.must(executable.Close())
}

// closedEvents: a graph with a closed event does no work, and waiters for its other events are
// released.
func (d *denied) closedEvents() {
	s, first, second := d.stream(), d.newTimedEvent(), d.newTimedEvent()
	executable, err := d.context.Instantiate(after(d.rows(5), gpu.Record{Event: first}, gpu.Record{Event: second}))
	d.must(err)
	d.must(executable.Launch(s))
	d.must(s.Synchronize())
	d.submit(s, d.rows(6))
	d.must(second.Close())
	d.wantError("launch", executable.Launch(s), abi.InvalidHandle, "graph node 2")
	d.must(first.Synchronize())
	d.must(s.Synchronize())
	d.wantBytes(d.context, gpu.Range{Address: d.memory.Address, Bytes: 256}, 6)
	d.must(executable.Close())

	_, err = d.context.(gpu.Resumable).EventTime(second)
	d.wantError("time of a closed event", err, abi.InvalidHandle, "")
	// In a restored session an event is complete without the driver.
	restored, err := d.context.NewEvent(gpu.EventOptions{Time: gpu.EventTime{Recorded: true}})
	d.must(err)
	d.driver.reset()
	d.submit(s, gpu.Await{Event: restored}, d.rows(7))
	d.must(s.Synchronize())
	if waits := d.driver.counts()["cuStreamWaitEvent"]; waits != 0 {
		d.Errorf("got %d driver waits for unknown events", waits)
	}
}

// closedStreams: a graph is launched in streams that are closed, and stays alive.
func (d *denied) closedStreams() {
	closed := d.stream()
	d.closeStream(closed)
	event := d.newTimedEvent()
	for _, graph := range []*gpu.Graph{after(d.rows(1)), after(d.rows(2), gpu.Record{Event: event})} {
		executable, err := d.context.Instantiate(graph)
		d.must(err)
		// A launch after work that the driver cannot run makes the next launch wait.
		s, release := d.stream(), make(chan struct{})
		d.submit(s, gpu.Call{Func: func() { <-release }})
		d.must(executable.Launch(s))
		d.wantError("in a closed stream", executable.Launch(closed), abi.InvalidHandle, "the stream is closed")
		close(release)
		d.must(executable.Launch(s))
		d.must(s.Synchronize())
		d.must(event.Synchronize())
		d.closeStream(s)
		d.must(executable.Close())
		if len(graph.Nodes) == 1 && d.driver.counts()["cuGraphExecDestroy"] != 1 {
			d.Error("the driver's graph was not destroyed with its last reference")
		}
	}
}

// events are timed by a driver that fails to report a time. A later query can succeed.
func (d *denied) events() {
	s, resumable := d.stream(), d.context.(gpu.Resumable)
	record := func() gpu.Event {
		event := d.newTimedEvent()
		d.submit(s, gpu.Record{Event: event})
		d.must(s.Synchronize())
		return event
	}
	first, second := record(), record()
	d.failsOnce("cuEventElapsedTime", 1, func() error {
		ms, err := first.ElapsedSince(first)
		if err == nil && ms != 0 {
			d.Errorf("got %v ms from an event to itself, want 0", ms)
		}
		return err
	})
	// The later time is known, and the earlier one follows from it.
	third := record()
	end := d.eventTime(third)
	between := d.elapsed(second, third)
	if begin := d.eventTime(second); milliseconds(end-begin) != between || between < 0 {
		d.Errorf("got %v ms between events at %v and %v", between, begin, end)
	}
	// In a context that is a second old, times are relative to a later beginning, whose own time
	// has to be measured.
	time.Sleep(1100 * time.Millisecond)
	late := record()
	ask := func() error {
		at, err := resumable.EventTime(late)
		if err == nil && at.Clock < end+time.Second {
			d.Errorf("one second after %v: got %v", end, at.Clock)
		}
		return err
	}
	d.wantError(
		"time of the beginning",
		d.failsClean("cuEventSynchronize", 1, once, abi.OutOfMemory, ask),
		abi.OutOfMemory,
		"",
	)
	d.failsOnce("cuEventElapsedTime", 1, ask)
}

// lateRefusals: the driver refuses work only when the stream reaches it. The session gets one
// error, and the stream continues.
func (d *denied) lateRefusals() {
	late := make(chan error, 10)
	const size = 4 * gpu.ChunkBytes // more than the buffers hold
	content := pattern(size)
	host := func() *paced { return &paced{bytes.Clone(content), func(int64) {}} }
	up := func(from gpu.HostMemory) gpu.Work {
		return gpu.Copy{Dst: d.place(0), Src: gpu.Place{Host: from}, Extent: [3]uint64{size, 1, 1}}
	}
	for _, test := range []struct {
		call string
		work func(target *paced) gpu.Work
	}{
		{"cuMemHostAlloc", func(*paced) gpu.Work { return up(host()) }},
		{"cuEventQuery", func(*paced) gpu.Work { return up(host()) }},
		{"cuMemHostAlloc", func(target *paced) gpu.Work {
			return gpu.Copy{Dst: gpu.Place{Host: target}, Src: d.place(0), Extent: [3]uint64{size, 1, 1}}
		}},
		{"cuMemHostAlloc", func(target *paced) gpu.Work {
			return gpu.Copy{Dst: gpu.Place{Host: target}, Src: gpu.Place{Host: host()}, Extent: [3]uint64{size, 1, 1}}
		}},
	} {
		context, end := d.newContext(gpu.ContextOptions{OnRefused: func(err error) { late <- err }})
		s, err := context.NewStream(gpu.StreamOptions{NonBlocking: true})
		d.must(err)
		target := &paced{make([]byte, size), func(int64) {}}
		d.failsOnce(test.call, 1, func() error {
			d.submit(s, test.work(target))
			d.must(s.Synchronize())
			select {
			case err := <-late:
				return err
			default:
				return nil
			}
		})
		_, err = d.context.Memory().ReadAt(target.bytes, int64(d.memory.Address))
		d.must(err)
		if !bytes.Equal(target.bytes, content) {
			d.Errorf("%s: the copy differs", test.call)
		}
		end()
	}
	if len(late) > 0 {
		d.Errorf("more than one error: %v", <-late)
	}
}

// failingMemory is memory of a program that no longer exists.
type failingMemory struct{}

func (failingMemory) ReadAt([]byte, int64) (int, error)  { return 0, errors.New("there is nothing") }
func (failingMemory) WriteAt([]byte, int64) (int, error) { return 0, errors.New("there is nothing") }

// goneMemory: an access to the program's memory fails. The GPU's memory stays as it was.
func (d *denied) goneMemory() {
	const size = 3 * gpu.ChunkBytes
	all := gpu.Range{Address: d.memory.Address, Bytes: size}
	d.fillAll(d.context, all, 9)
	s := d.stream()
	there := gpu.Place{Host: failingMemory{}}
	host := gpu.Place{Host: &paced{make([]byte, size), func(int64) {}}}
	for _, ends := range [][2]gpu.Place{{d.place(0), there}, {there, d.place(0)}, {there, host}, {host, there}} {
		d.submit(s, gpu.Copy{Dst: ends[0], Src: ends[1], Extent: [3]uint64{size, 1, 1}})
		d.must(s.Synchronize())
	}
	d.wantBytes(d.context, all, 9)
}

// completions arrive although the driver refuses work, or are refused at once. The same holds for
// small copies without staging memory.
func (d *denied) completions() {
	context, end := d.newContext(gpu.ContextOptions{})
	defer end()
	s, err := context.NewStream(gpu.StreamOptions{NonBlocking: true})
	d.must(err)
	var done atomic.Int32
	tell := gpu.Completion{Func: func() { done.Add(1) }}
	d.submit(s, d.fill(0, 1))
	d.failsOnce("cuEventCreate", 1, func() error { return s.Submit(tell) })
	d.must(s.Synchronize())
	if got := done.Load(); got != 1 {
		d.Errorf("got %d completions of work that was refused and then accepted", got)
	}
	release := make(chan struct{})
	d.submit(s, d.fill(0, 1), gpu.Call{Func: func() { <-release }}, tell)
	d.driver.fail("cuEventRecord", 1, once, abi.OutOfMemory)
	close(release)
	d.must(s.Synchronize())
	if got := done.Load(); got != 2 || d.driver.failed() != 1 {
		d.Errorf("got %d completions without an event; %d failed", got, d.driver.failed())
	}
	d.driver.reset()

	// The second waiter finds the completion being delivered.
	done.Store(0)
	slow := gpu.Completion{Func: func() {
		time.Sleep(time.Millisecond)
		done.Add(1)
	}}
	for round := range int32(40) {
		d.submit(s, d.fill(0, 1), slow)
		d.must(s.Synchronize())
		if got := done.Load(); got != round+1 {
			d.Errorf("got %d completions of %d", got, round+1)
		}
	}

	small := func() error {
		return s.Submit(
			gpu.Copy{
				Dst:    d.place(0),
				Src:    gpu.Place{Host: &paced{make([]byte, gpu.EarlyBytes), func(int64) {}}},
				Extent: [3]uint64{gpu.EarlyBytes, 1, 1},
			},
		)
	}
	d.failsOnce("cuMemHostAlloc", 1, small)
	for range 3 { // until the staging memory is full
		d.must(small())
	}
	d.failsOnce("cuEventRecord", 1, small)
	d.must(s.Synchronize())
	d.wantBytes(d.context, gpu.Range{Address: d.memory.Address, Bytes: gpu.EarlyBytes}, 0)
}
