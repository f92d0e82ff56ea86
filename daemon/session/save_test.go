package session

import (
	"bytes"
	gocontext "context"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/session/heap"
	"github.com/phos-gpu/phos/daemon/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

func (p *program) quiet() {
	p.t.Helper()
	ctx, cancel := gocontext.WithTimeout(gocontext.Background(), 20*time.Second)
	defer cancel()
	if err := p.session.Quiet(ctx); err != nil {
		p.t.Fatal(err)
	}
}

// lazily backs what a restored session has by chunks that are filled when they are touched.
type lazily struct {
	gpu.Memory
	from gpu.Memory
}

func (l lazily) Map(r gpu.Range) error {
	return l.Memory.(gpu.Lazy).MapAbsent(r, func(address uint64, chunk []byte) error {
		_, err := l.from.ReadAt(chunk, int64(address))
		return err
	})
}

// twin saves the program's session and restores it on another backend, for a program in the same state. Device memory is
// copied at once, or lazily when it is touched: then the first program must not run any more.
func (p *program) twin(spec string, lazy bool) *program {
	p.t.Helper()
	p.quiet()
	data, err := p.session.Save()
	if err != nil {
		p.t.Fatal(err)
	}
	backend, err := soft.Open(spec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	q := &program{
		t: p.t, memory: slices.Clone(p.memory), arena: slices.Clone(p.arena), replies: map[uint64]chan answer{},
		words: maps.Clone(p.words), sequence: p.sequence, context: p.context,
	}
	p.mu.Unlock()
	memories := p.session.Memories()
	options := Options{Backend: backend, Program: q, Arena: q, Answers: q}
	if lazy {
		options.Backing = func(ordinal int, memory gpu.Memory) heap.Backing {
			at := slices.IndexFunc(memories, func(m Memory) bool { return m.Ordinal == ordinal })
			return lazily{memory, memories[at].Memory}
		}
	}
	if q.session, err = Restore(options, data); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := q.session.Close(); err != nil {
			p.t.Error(err)
		}
		if err := backend.Close(); err != nil {
			p.t.Error(err)
		}
	})
	again := q.session.Memories()
	if len(again) != len(memories) {
		p.t.Fatalf("%d GPUs are open, want %d", len(again), len(memories))
	}
	for i, m := range memories {
		if !slices.Equal(m.Mapped, again[i].Mapped) {
			p.t.Fatalf("GPU %d: %v is mapped, want %v", m.Ordinal, again[i].Mapped, m.Mapped)
		}
		for _, r := range m.Mapped {
			if lazy {
				continue
			}
			content := make([]byte, r.Bytes)
			if _, err := m.ReadAt(content, int64(r.Address)); err != nil {
				p.t.Fatal(err)
			}
			if _, err := again[i].WriteAt(content, int64(r.Address)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	data2, err := q.session.Save()
	if err != nil {
		p.t.Fatal(err)
	}
	if !bytes.Equal(timeless(p.t, data), timeless(p.t, data2)) {
		p.t.Fatalf("saved again, it is %d bytes; %d at first", len(data2), len(data))
	}
	return q
}

// timeless is a saved session without what its clocks say.
func timeless(t testing.TB, data []byte) []byte {
	t.Helper()
	s, err := saved.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Devices {
		s.Devices[i].Continuation.Clock = 0
	}
	again, err := saved.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// TestRestoreGoesOn takes a program with a bit of everything to another GPU in the middle of its work.
func TestRestoreGoesOn(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		const spec, count = "soft:1", 1000
		p := softProgram(t, spec, 1<<20)
		module := p.load(doubleText)
		var f wire.ModuleGetFunctionReply
		p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: module, Name: "double"}, &f)
		device := p.alloc(4 * count)
		for i := range count {
			p.memory[4*i] = byte(i)
		}
		if err := p.copyIn(device, 0, 4*count); err != nil {
			t.Fatal(err)
		}
		st := p.stream(0)
		event, _ := p.event()
		p.begin(st)
		p.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
		exec := p.instantiate(p.end(st))
		p.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
		p.ok(abi.CallEventRecord, &wire.EventRecord{Event: event, Stream: st, Count: 1}, nil)
		q := p.twin(spec, lazy)
		for _, x := range []*program{q, p} {
			x.ok(abi.CallGraphLaunch, &wire.GraphLaunch{HGraphExec: exec, HStream: st}, nil)
			x.ok(abi.CallLaunch, doubleOf(f.Hfunc, st, device, count), nil)
			if err := x.copyOut(0, device, 4*count); err != nil {
				t.Fatal(err)
			}
			for i := range count {
				if got := x.memory[4*i]; got != byte(8*i) {
					t.Fatalf("element %d is %d, want %d", i, got, 8*i)
				}
			}
			var calls wire.ModuleGetGlobalReply
			x.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: "calls"}, &calls)
			if err := x.copyOut(0, calls.Dptr, 4); err != nil {
				t.Fatal(err)
			}
			if got := x.memory[0]; got != byte(3*count&0xff) {
				t.Errorf("the counter is %d", got)
			}
		}
	}
}
