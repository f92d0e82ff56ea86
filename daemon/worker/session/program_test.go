package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// program plays the program and its shim: memory, an arena, threads that call and get replies.
type program struct {
	t       testing.TB
	backend *fakeGPU
	session *Session
	memory  []byte // at programBase
	arena   []byte

	mu        sync.Mutex
	sequence  uint64
	replies   map[uint64]chan answer
	failures  []abi.Result
	words     map[uint32]uint64
	capturing int
	full      []bool
	callback  func(wire.Callback)
	stuck     chan struct{} // reading the program's memory waits for it
	punched   int
	printed   []byte
	context   abi.Handle
}

type answer struct {
	code abi.Result
	data []byte
}

const (
	programBase = 0x10000
	arenaBase   = 0x6000_0000_0000
)

func newProgram(t testing.TB) *program {
	t.Helper()
	backend := &fakeGPU{devices: 2, chunks: 16, kernels: map[string]func(gpu.Memory, []byte) error{}}
	p := startProgram(t, backend, 8<<20)
	p.backend = backend
	return p
}

// startProgram starts a program with some memory on any backend, and retains its first primary
// context.
func startProgram(t testing.TB, backend gpu.Backend, bytes int) *program {
	t.Helper()
	p := &program{
		t:       t,
		memory:  make([]byte, bytes),
		arena:   make([]byte, 1<<20),
		replies: map[uint64]chan answer{},
		words:   map[uint32]uint64{},
	}
	s, err := New(Options{Backend: backend, Program: p, Arena: p, Answers: p, Share: p.share})
	if err != nil {
		t.Fatal(err)
	}
	p.session = s
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	var out wire.DevicePrimaryCtxRetainReply
	p.ok(abi.CallDevicePrimaryCtxRetain, &wire.DevicePrimaryCtxRetain{}, &out)
	p.context = out.Pctx
	return p
}

// sharedMemory is part of a program's memory.
type sharedMemory []byte

func (m sharedMemory) Memory() []byte { return m }

func (m sharedMemory) Close() error { return nil }

func (p *program) share(r gpu.Range) (Shared, error) {
	if !(gpu.Range{Address: programBase, Bytes: uint64(len(p.memory))}).Contains(r) {
		return nil, io.ErrUnexpectedEOF
	}
	at := r.Address - programBase
	return sharedMemory(p.memory[at : at+r.Bytes : at+r.Bytes]), nil
}

func (p *program) Memory(uint32) gpu.HostMemory { return p }

func (p *program) ReadAt(b []byte, address int64) (int, error) {
	if p.stuck != nil {
		<-p.stuck
	}
	if address < programBase || address+int64(len(b)) > programBase+int64(len(p.memory)) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b, p.memory[address-programBase:]), nil
}

func (p *program) WriteAt(b []byte, address int64) (int, error) {
	if address < programBase || address+int64(len(b)) > programBase+int64(len(p.memory)) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(p.memory[address-programBase:], b), nil
}

func (p *program) Address() uint64              { return arenaBase }
func (p *program) Bytes() []byte                { return p.arena }
func (p *program) Reserve(uint64, uint64) error { return nil }
func (p *program) Punch(offset, bytes uint64) error {
	clear(p.arena[offset : offset+bytes])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.punched++
	return nil
}

// freesReach waits until so many frees have reached the arena's file: they come when the work that
// may use the memory is done.
func (p *program) freesReach(want int) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%d frees reach the arena's file, and nothing is left", want), func() bool {
		p.mu.Lock()
		got := p.punched
		p.mu.Unlock()
		return got == want && p.session.Progress().PinnedBytes == 0
	})
}

// mostWait is how long a test waits for what must happen; no speed is measured by it.
const mostWait = 2 * time.Minute

// eventually waits for what another goroutine does.
func (p *program) eventually(what string, holds func() bool) {
	p.t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Since(begun) > mostWait {
			p.t.Fatalf("never: %s", what)
		}
	}
}

func (p *program) Reply(_ uint32, sequence uint64, code abi.Result, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies[sequence] <- answer{code, data}
}

func (p *program) Fail(code abi.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, code)
}

func (p *program) Capturing(streams int) { p.capturing = streams }

func (p *program) Full(full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full = append(p.full, full)
}

func (p *program) Complete(word uint32, count uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words[word] = count
}

func (p *program) word(word uint32) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words[word]
}

func (p *program) Callback(callback wire.Callback) error {
	if p.callback != nil {
		p.callback(callback)
	}
	return nil
}

func (p *program) Print(text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.printed = append(p.printed, text...)
}

// post sends a call and returns where its reply will come, nil for calls that have none.
func (p *program) post(slot uint32, mode graph.Mode, number abi.Call, in wire.Reply) chan answer {
	p.mu.Lock()
	p.sequence++
	call := &Call{
		Number:   number,
		Slot:     slot,
		Sequence: p.sequence,
		Context:  uint32(p.context),
		Flags:    uint16(mode) << wire.FlagModeShift,
	}
	var reply chan answer
	if number.Class() != abi.ClassAsync {
		call.Flags |= wire.FlagWait
		reply = make(chan answer, 1)
		p.replies[p.sequence] = reply
	}
	p.mu.Unlock()
	if in != nil {
		call.Payload = in.Append(nil)
	}
	p.session.Dispatch(call)
	for i := range call.Payload {
		call.Payload[i] = 0xee // the worker reuses its buffer: no handler may have kept it
	}
	return reply
}

// do makes a call as thread 1 and returns its code; async ones return what they stored as an error.
func (p *program) do(number abi.Call, in wire.Reply, out wire.Message) error {
	p.t.Helper()
	return p.doAs(1, graph.ModeGlobal, number, in, out)
}

func (p *program) doAs(slot uint32, mode graph.Mode, number abi.Call, in wire.Reply, out wire.Message) error {
	p.t.Helper()
	p.mu.Lock()
	before := len(p.failures)
	p.mu.Unlock()
	reply := p.post(slot, mode, number, in)
	if reply == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.failures) > before {
			return p.failures[len(p.failures)-1]
		}
		return nil
	}
	return p.await(reply, out)
}

func (p *program) await(reply chan answer, out wire.Message) error {
	p.t.Helper()
	select {
	case got := <-reply:
		if out != nil {
			if err := out.Decode(got.data); err != nil {
				p.t.Errorf("reply: %v", err)
			}
		}
		if got.code != abi.Success {
			return got.code
		}
		return nil
	case <-time.After(mostWait):
		p.t.Fatal("no reply")
		return nil
	}
}

func (p *program) ok(number abi.Call, in wire.Reply, out wire.Message) {
	p.t.Helper()
	p.want(nil, number, in, out)
}

// start makes a call of work that fails later: ok might take that failure for one of the call.
func (p *program) start(number abi.Call, in wire.Reply) {
	p.t.Helper()
	if p.post(1, graph.ModeGlobal, number, in) != nil {
		p.t.Fatalf("%v is answered: use ok", number)
	}
}

func (p *program) want(code error, number abi.Call, in wire.Reply, out wire.Message) {
	p.t.Helper()
	if err := p.do(number, in, out); code == nil && err != nil || code != nil && !errors.Is(err, code) {
		p.t.Fatalf("%v: got %v, want %v", number, err, code)
	}
}

func (p *program) alloc(bytes uint64) uint64 {
	p.t.Helper()
	var out wire.MemAllocReply
	p.ok(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: bytes}, &out)
	return out.Dptr
}

func (p *program) stream(flags uint32) abi.Handle {
	p.t.Helper()
	var out wire.StreamCreateWithPriorityReply
	p.ok(abi.CallStreamCreateWithPriority, &wire.StreamCreateWithPriority{Flags: flags}, &out)
	return out.PhStream
}

func (p *program) event() (abi.Handle, uint32) {
	p.t.Helper()
	var out wire.EventCreateReply
	p.ok(abi.CallEventCreate, &wire.EventCreate{}, &out)
	return out.Event, out.Word
}

// load loads a text as a module and returns its handle.
func (p *program) load(text string) abi.Handle {
	p.t.Helper()
	var out wire.ModuleLoadReply
	p.ok(abi.CallModuleLoad, p.image(text, false), &out)
	return abi.Handle(out.Handle)
}

// image puts a text at the end of the program's memory.
func (p *program) image(text string, library bool) *wire.ModuleLoad {
	text = ".version 8.4\n.target sm_90\n.address_size 64\n" + text + "\x00"
	at := len(p.memory) - len(text)
	copy(p.memory[at:], text)
	in := &wire.ModuleLoad{Address: programBase + uint64(at), Size: uint64(len(text))}
	if library {
		in.Library = 1
	}
	return in
}

// kernel makes a Go function a kernel that the program can launch.
func (p *program) kernel(name string, body func(m gpu.Memory, params []byte) error) abi.Handle {
	p.t.Helper()
	p.backend.mu.Lock()
	p.backend.kernels[name] = body
	p.backend.mu.Unlock()
	module := p.load(".visible .entry " + name + " ()")
	var out wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: name}, &out)
	return out.Hfunc
}

// log is a kernel that notes the number it is given, in the order of execution.
type log struct {
	mu      sync.Mutex
	entries []uint64
}

func (l *log) kernel(p *program) abi.Handle {
	return p.kernel("note", func(_ gpu.Memory, params []byte) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.entries = append(l.entries, binary.LittleEndian.Uint64(params))
		return nil
	})
}

func (l *log) got() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]uint64(nil), l.entries...)
}

func launchOf(f, stream abi.Handle, argument uint64) *wire.Launch {
	return &wire.Launch{
		Function: uint64(f), GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1, Stream: stream,
		Params: binary.LittleEndian.AppendUint64(nil, argument),
	}
}

// gate is a kernel that waits until it is opened.
func (p *program) gate() (function abi.Handle, open func()) {
	c := make(chan struct{})
	f := p.kernel("gate", func(gpu.Memory, []byte) error { <-c; return nil })
	return f, sync.OnceFunc(func() { close(c) })
}
