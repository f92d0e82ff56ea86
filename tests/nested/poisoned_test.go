package nested

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/hijack/abi"
)

// TestPoisoned causes a fault while a context works. Waiters are released, new work is refused,
// queries are still answered, and close does not wait for the driver forever.
func TestPoisoned(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	b := openBackend(t)
	s, resumable := b.stream(), b.context.(gpu.Resumable)
	event, err := b.context.NewEvent(gpu.EventOptions{Timing: true})
	b.must(err)
	b.submit(s, b.fill(0, 3), gpu.Record{Event: event})
	b.must(s.Synchronize())
	before, err := resumable.EventTime(event)
	b.must(err)
	graph := &gpu.Graph{Nodes: []gpu.Node{{Work: b.fill(0, 3)}}}
	executable, err := b.context.Instantiate(graph)
	b.must(err)

	held, _ := b.heldStream()
	waits := make(chan error, 1)
	go func() { waits <- held.Synchronize() }()
	had := &gpu.Error{Op: "launch add", Code: abi.IllegalAddress, Detail: "as it was saved"}
	resumable.Poison(had)
	resumable.Poison(&gpu.Error{Op: "launch add", Code: abi.ECCUncorrectable})
	_, write := b.context.Memory().WriteAt([]byte{1}, int64(b.memory.Address))
	_, streams := b.context.NewStream(gpu.StreamOptions{})
	_, events := b.context.NewEvent(gpu.EventOptions{})
	_, graphs := b.context.Instantiate(graph)
	asked := event.Query()
	for what, err := range map[string]error{
		"fault": b.context.Fault(), "wait": <-waits, "stream": streams, "submit": s.Submit(b.fill(0, 4)),
		"write": write, "query": s.Query(), "context": b.context.Synchronize(), "event": events, "graph": graphs,
		"launch": executable.Launch(s), "wait for event": event.Synchronize(), "query event": asked,
	} {
		if !errors.Is(err, had) {
			t.Errorf("%s: got %v, want %v", what, err, had)
		}
	}
	if after, err := resumable.EventTime(event); err != nil || !before.Recorded || !after.Recorded ||
		after.Clock < before.Clock {
		t.Errorf("event time was %v, and is %v: %v", before, after, err)
	}
	if c := resumable.Continuation(); c.Clock < before.Clock {
		t.Errorf("the clock is %v, after %v", c.Clock, before.Clock)
	}
	if err := b.context.Close(); !errors.Is(err, cuda.ErrStuck) { // the driver waits for work that never completes
		t.Errorf("close: got %v", err)
	}
}

// TestLimits sets limits of kernels. An error of the driver is passed on and has no other effect.
func TestLimits(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	b := openBackend(t)
	limiter := b.context.(gpu.Limiter)
	b.must(limiter.SetLimit(0, 8192))
	if err := limiter.SetLimit(1000, 1); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("unknown limit: %v", err)
	}
	b.must(b.context.Fault())
	s := b.stream()
	b.submit(s, b.fill(0, 3))
	b.must(s.Synchronize())
}

// TestPoisonedAtWork poisons contexts during work, each in its own process. Waiters are released
// and get the reason.
func TestPoisonedAtWork(t *testing.T) {
	for name, part := range map[string]func(*denied){
		"import": (*denied).importFails, "graph": (*denied).graphFails, "unreported": (*denied).unreportedRefusal,
		"mark": (*denied).markFails, "watch": (*denied).watched, "host": (*denied).hostFails, "drain": (*denied).drainFails,
		"halt":  (*denied).halted,
		"unmap": lostMemory("cuMemUnmap"), "map": lostMemory("cuMemMap"), "fill": lostMemory("cuMemcpyHtoDAsync_v2"),
	} {
		t.Run(name, func(t *testing.T) {
			if ownProcess(t, failingDriver) {
				part(openDenied(t))
			}
		})
	}
}

// wantPoisoned checks the code of an error, and that the context returns the same error from then
// on.
func (d *denied) wantPoisoned(what string, err error, code abi.Result) {
	d.Helper()
	if !errors.Is(err, code) {
		d.Errorf("%s: got %v, want %s", what, err, code)
	}
	if _, again := d.context.NewStream(gpu.StreamOptions{}); !errors.Is(again, d.context.Fault()) ||
		!errors.Is(again, code) {
		d.Errorf("%s: later error %v", what, again)
	}
}

func (d *denied) importFails() {
	sharer, whole := d.context.Memory().(gpu.Sharer), d.chunks(0, 0, 1)
	d.must(d.context.Memory().Map(whole))
	file, _, err := sharer.Share(whole)
	d.must(err)
	defer file.Close()
	d.driver.fail("cuMemMap", 1, once, abi.IllegalAddress)
	d.wantPoisoned("import", sharer.Import(d.chunks(0, 2, 1), file, 0), abi.IllegalAddress)
}

func (d *denied) graphFails() {
	d.driver.fail("cuGraphInstantiateWithFlags", 1, once, abi.IllegalAddress)
	_, err := d.context.Instantiate(after(d.fill(0, 3)))
	d.wantPoisoned("instantiate", err, abi.IllegalAddress)
}

// unreportedRefusal: a late refusal that cannot be reported to any waiter poisons the context.
func (d *denied) unreportedRefusal() {
	const size = 2 * gpu.ChunkBytes
	s := d.stream()
	d.driver.fail("cuMemHostAlloc", 1, once, abi.OutOfMemory)
	d.submit(
		s,
		gpu.Copy{
			Dst:    d.place(0),
			Src:    gpu.Place{Host: &paced{make([]byte, size), func(int64) {}}},
			Extent: [3]uint64{size, 1, 1},
		},
	)
	d.wantPoisoned("copy", s.Synchronize(), abi.OutOfMemory)
}

// markFails: the GPU has failed when the driver is asked for a progress report. The waiters get the
// error.
func (d *denied) markFails() {
	s, done := d.stream(), make(chan struct{})
	d.submit(s, d.fill(0, 3))
	d.driver.fail("cuEventRecord", 1, once, abi.IllegalAddress)
	d.submit(s, gpu.Completion{Func: func() { close(done) }})
	<-done
	d.wantPoisoned("completion", s.Synchronize(), abi.IllegalAddress)
}

// watched: a closed stream stays until its last completion was handled. If the driver reports late,
// that is long after the work.
func (d *denied) watched() {
	s, open := d.heldByOther()
	done := make(chan struct{})
	d.driver.fail("cuEventSynchronize", 1, hang, 0)
	d.submit(s, gpu.Completion{Func: func() { close(done) }})
	d.waitFor("no watcher is left", func() bool { return d.driver.failed() > 0 })
	d.must(s.Close())
	open()
	<-done
	d.waitFor("the stream was not kept", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return slices.ContainsFunc(bytes.Split(stacks, []byte("\n\n")), func(stack []byte) bool {
			return bytes.Contains(stack, []byte("cuda.(*Stream).destroy(")) &&
				bytes.Contains(stack, []byte("sync.(*Cond).Wait("))
		})
	})
	if d.driver.counts()["cuStreamDestroy_v2"] > 0 {
		d.Error("the stream was destroyed too early")
	}
}

// hostFails: the GPU has failed when the driver is asked to register host memory.
func (d *denied) hostFails() {
	pages, err := unix.Mmap(-1, 0, gpu.ChunkBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	d.must(err)
	d.driver.fail("cuMemHostRegister_v2", 1, once, abi.IllegalAddress)
	d.wantPoisoned(
		"map host memory",
		d.context.Memory().MapHost(uint64(reflect.ValueOf(pages).Pointer()), pages),
		abi.IllegalAddress,
	)
}

// lostMemory makes a call fail while memory that was unmapped is being moved. Callers must not
// continue as if it were mapped.
func lostMemory(call string) func(*denied) {
	return func(d *denied) {
		memory := d.context.Memory()
		d.must(memory.Map(d.chunks(0, 0, 2)))
		d.must(memory.Unmap(d.chunks(0, 1, 1)))
		d.driver.fail(call, 1, once, abi.OutOfMemory)
		d.wantPoisoned("compact", memory.(gpu.ReclaimableMemory).Compact(), abi.OutOfMemory)
	}
}

// heldByOther is heldStream with a word that another context writes, because this context may be
// poisoned by then.
func (d *denied) heldByOther() (s gpu.Stream, open func()) {
	d.Helper()
	helper, _ := d.newContext(gpu.ContextOptions{})
	s, _ = d.heldStream()
	return s, func() {
		_, err := helper.Memory().WriteAt([]byte{1, 0, 0, 0}, int64(d.memory.End()-8))
		d.must(err)
	}
}

// drainFails: the driver cannot report when a stream with a pending function is done. The function
// runs all the same.
func (d *denied) drainFails() {
	s, open := d.heldByOther()
	called := make(chan struct{})
	d.driver.fail("cuStreamSynchronize", 1, once, abi.OutOfMemory)
	d.submit(s, gpu.Call{Func: func() { close(called) }})
	<-called
	d.wantPoisoned("wait", s.Synchronize(), abi.OutOfMemory)
	open()
}

// halted: the context is poisoned while there are a waiter in the driver, a stream that waits for
// it, and a stream that waits for that one. There are also copies that wait for the driver or for
// the program's memory.
func (d *denied) halted() {
	const size = 4 * gpu.ChunkBytes
	first, open := d.heldByOther()
	event, poisoned, called := d.newTimedEvent(), make(chan struct{}), make(chan struct{})
	d.driver.reset()
	d.submit(first, gpu.Call{Func: func() { close(called) }}, gpu.Record{Event: event})
	d.waitFor("no wait in the driver", func() bool { return d.driver.counts()["cuStreamSynchronize"] > 0 })
	second := d.stream()
	d.submit(second, gpu.Await{Event: event})

	third, _ := d.heldStream()
	var reads atomic.Int32
	upload := func(s gpu.Stream, accessed func(int64)) {
		d.submit(
			s,
			gpu.Copy{
				Dst:    d.place(0),
				Src:    gpu.Place{Host: &paced{make([]byte, size), accessed}},
				Extent: [3]uint64{size, 1, 1},
			},
		)
	}
	marked := d.driver.counts()["cuEventRecord"]
	upload(third, func(int64) { reads.Add(1) })
	d.waitFor(
		"the driver did not get the buffers",
		func() bool { return reads.Load() == 2 && d.driver.counts()["cuEventRecord"] == marked+2 },
	)
	fourth, accessed := d.stream(), make(chan struct{})
	upload(fourth, func(int64) {
		close(accessed)
		<-poisoned
	})
	<-accessed

	fifth, _ := d.heldStream()
	waits, inside, waiting := make(chan error, 1), make(chan error, 1), d.driver.counts()["cuStreamSynchronize"]
	go func() { waits <- event.Synchronize() }()
	go func() { inside <- fifth.Synchronize() }()
	d.waitFor("no wait in the driver", func() bool { return d.driver.counts()["cuStreamSynchronize"] > waiting })
	d.context.(gpu.Resumable).Poison(&gpu.Error{Op: "launch add", Code: abi.IllegalAddress, Detail: "as it was saved"})
	close(poisoned)
	<-called
	d.wantPoisoned("event", <-waits, abi.IllegalAddress)
	d.wantPoisoned("the waiter in the driver", <-inside, abi.IllegalAddress)
	for i, s := range []gpu.Stream{first, second, third, fourth} {
		d.wantPoisoned(fmt.Sprint("stream ", i), s.Synchronize(), abi.IllegalAddress)
	}
	d.wantPoisoned("memory", d.context.Memory().Map(d.chunks(0, 0, 1)), abi.IllegalAddress)
	if reads.Load() != 2 {
		d.Error("a copy continued after the context was poisoned")
	}
	open()
}
