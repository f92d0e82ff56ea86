package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

const stepText = ".version 8.4\n.target sm_90\n.address_size 64\n" + `
.global .align 4 .u32 steps;
.visible .entry step(.param .u64 data, .param .u32 count)
{
	.reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>;
	ld.param.u64 %rd0, [data];
	ld.param.u32 %r0, [count];
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
	mad.lo.s32 %r4, %r1, %r2, %r3;
	setp.ge.u32 %p, %r4, %r0;
	@%p bra DONE;
	mul.wide.u32 %rd1, %r4, 4;
	add.s64 %rd2, %rd0, %rd1;
	ld.global.u32 %r5, [%rd2];
	mad.lo.u32 %r5, %r5, 1664525, %r4;
	st.global.u32 [%rd2], %r5;
	atom.global.add.u32 %r6, [steps], 1;
DONE:
	ret;
}` + "\x00"

const (
	wordCount = 140_000 // of a buffer: large enough to be copied with help
	blockSize = 128
)

// pages returns memory of the program at a fixed address.
func pages(t *testing.T, bytes int) []byte {
	t.Helper()
	got, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(got) })
	return got
}

// caller is a thread of the program whose calls must succeed.
type caller struct {
	t *testing.T
	*wiretest.Thread
}

func (c caller) ok(call abi.Call, in wire.Reply, out wire.Message) {
	if result, err := c.Call(call, in, out); result != abi.Success || err != nil {
		c.t.Errorf("%v: %v, %v", call, result, err)
		panic(errStopped)
	}
}

var errStopped = fmt.Errorf("a call failed")

// workload is a program with threads. Each thread steps through a computation and checks it against
// a model.
type workload struct {
	t        *testing.T
	program  *wiretest.Program
	function abi.Handle
	stop     atomic.Bool
	steps    atomic.Uint64
	called   atomic.Uint64 // host functions
	running  sync.WaitGroup
	serving  sync.WaitGroup
	quit     chan struct{}
}

func startWorkload(t *testing.T, p *wiretest.Program, threads int) *workload {
	t.Helper()
	w := &workload{t: t, program: p, quit: make(chan struct{})}
	main := caller{t, p.NewThread()}
	main.Context = 1
	main.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &wire.DevicePrimaryCtxRetainReply{})
	text := pages(t, len(stepText))
	copy(text, stepText)
	var module wire.ModuleLoadReply
	main.ok(abi.CallModuleLoad, &wire.ModuleLoad{Address: addressOf(text), Size: uint64(len(text))}, &module)
	var function wire.ModuleGetFunctionReply
	main.ok(
		abi.CallModuleGetFunction,
		&wire.ModuleGetFunction{Hmod: abi.Handle(module.Handle), Name: "step"},
		&function,
	)
	w.function = function.Hfunc
	w.serving.Go(w.serveCallbacks)
	for i := range threads {
		w.running.Go(func() { w.thread(uint64(i)) })
	}
	t.Cleanup(w.end)
	return w
}

// end stops the threads and waits for them.
func (w *workload) end() {
	if w.stop.Swap(true) {
		return
	}
	w.running.Wait()
	close(w.quit)
	w.serving.Wait()
}

// serveCallbacks runs the program's callback thread.
func (w *workload) serveCallbacks() {
	thread := w.program.NewThread()
	for {
		callback, found := w.program.TakeCallback()
		if found {
			w.called.Add(1)
			thread.PostInternal(abi.CallCallbackDone, &wire.CallbackDone{Id: callback.ID})
			continue
		}
		select {
		case <-w.quit:
			return
		default:
			runtime.Gosched()
		}
	}
}

// thread runs one thread of the program.
func (w *workload) thread(seed uint64) {
	defer func() {
		fault := recover()
		if err, ok := fault.(error); fault != nil && (!ok || !errors.Is(err, errStopped)) {
			panic(fault)
		}
	}()
	random := rand.New(rand.NewPCG(seed, 1))
	c := caller{w.t, w.program.NewThread()}
	c.Context = 1
	b := newBuffer(c, w, random)
	for !w.stop.Load() {
		b.step(random)
		w.steps.Add(1)
	}
	b.check()
}

// buffer is device memory and a model of its content.
type buffer struct {
	caller
	work   *workload
	stream abi.Handle
	device uint64
	pinned uint64
	host   []byte
	want   []uint32
}

func newBuffer(c caller, w *workload, random *rand.Rand) *buffer {
	b := &buffer{caller: c, work: w, host: pages(w.t, 4*wordCount), want: make([]uint32, wordCount)}
	var stream wire.StreamCreateWithPriorityReply
	c.ok(abi.CallStreamCreateWithPriority, &wire.StreamCreateWithPriority{Flags: 1}, &stream)
	var device wire.MemAllocReply
	c.ok(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: 4 * wordCount}, &device)
	var pinned wire.MemHostAllocReply
	c.ok(abi.CallMemHostAlloc, &wire.MemHostAlloc{Bytesize: 4 * wordCount}, &pinned)
	b.stream, b.device, b.pinned = stream.PhStream, device.Dptr, pinned.Pp
	for i := range b.want {
		b.want[i] = random.Uint32()
	}
	b.fill()
	return b
}

// fill copies the model into device memory.
func (b *buffer) fill() {
	for i, v := range b.want {
		binary.LittleEndian.PutUint32(b.host[4*i:], v)
	}
	b.ok(
		abi.CallMemcpyWait,
		&wire.MemcpyWait{
			Dst:     b.device,
			SrcKind: 1,
			Src:     addressOf(b.host),
			Width:   4 * wordCount,
			Height:  1,
			Depth:   1,
			Stream:  b.stream,
		},
		nil,
	)
}

// check compares device memory with the model.
func (b *buffer) check() { b.checkAt(b.device) }

func (b *buffer) checkAt(address uint64) {
	clear(b.host)
	b.ok(
		abi.CallMemcpyWait,
		&wire.MemcpyWait{
			DstKind: 1,
			Dst:     addressOf(b.host),
			Src:     address,
			Width:   4 * wordCount,
			Height:  1,
			Depth:   1,
			Stream:  b.stream,
		},
		nil,
	)
	for i, want := range b.want {
		if got := binary.LittleEndian.Uint32(b.host[4*i:]); got != want {
			b.t.Errorf("word %d at %#x is %d, want %d", i, address, got, want)
			panic(errStopped)
		}
	}
}

// step does a random operation and updates the model.
func (b *buffer) step(random *rand.Rand) {
	switch random.IntN(6) {
	case 0:
		b.check()
	case 1:
		b.want[random.IntN(wordCount)] = random.Uint32()
		b.fill()
	case 2: // through pinned memory and back
		b.Post(
			abi.CallMemcpy,
			&wire.Memcpy{Dst: b.pinned, Src: b.device, Width: 4 * wordCount, Height: 1, Depth: 1, Stream: b.stream},
		)
		b.launch()
		b.Post(
			abi.CallMemcpy,
			&wire.Memcpy{Dst: b.device, Src: b.pinned, Width: 4 * wordCount, Height: 1, Depth: 1, Stream: b.stream},
		)
		b.checkAt(b.pinned)
	case 3:
		b.Post(abi.CallHostFunc, &wire.HostFunc{Stream: b.stream, Function: 1})
		b.ok(abi.CallStreamSynchronize, &wire.StreamSynchronize{HStream: b.stream}, nil)
	default:
		b.launch()
		b.model()
	}
}

// launch runs the step kernel on device memory.
func (b *buffer) launch() {
	params := binary.LittleEndian.AppendUint64(nil, b.device)
	b.Post(abi.CallLaunch, &wire.Launch{
		Function: uint64(b.work.function), GridX: (wordCount + blockSize - 1) / blockSize, GridY: 1, GridZ: 1,
		BlockX: blockSize, BlockY: 1, BlockZ: 1, Stream: b.stream,
		Params: binary.LittleEndian.AppendUint32(params, wordCount),
	})
}

// model applies the same step to the model.
func (b *buffer) model() {
	for i := range b.want {
		b.want[i] = b.want[i]*1664525 + uint32(i)
	}
}
