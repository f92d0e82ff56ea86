package session

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
	"github.com/phos-gpu/phos/daemon/worker/session/heap"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// oldWindow is where the memory of the first GPU lay when the golden session was saved.
var oldWindow = gpu.Range{Address: 0x3000_0000_0000, Bytes: 1 << 40}

const (
	oldSpec  = "soft:1,memory=64MiB"
	oldCount = 1000
)

// oldProgram has a buffer of numbers, one of them doubled twice, a module with a variable that
// counts, and mapped memory.
func oldProgram(t *testing.T) *program {
	p := softProgram(t, oldSpec, 1<<18)
	var f wire.ModuleGetFunctionReply
	p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: p.load(doubleText), Name: "double"}, &f)
	buffer := p.alloc(4 * oldCount)
	at, _ := placedOn(p, 0)
	p.mayTouch(at, 0, 3)
	for i := range oldCount {
		binary.LittleEndian.PutUint32(p.memory[4*i:], uint32(i))
	}
	for _, to := range []uint64{buffer, at} {
		if err := p.copyIn(to, 0, 4*oldCount); err != nil {
			t.Fatal(err)
		}
		p.ok(abi.CallLaunch, doubleOf(f.Hfunc, 0, to, oldCount), nil)
	}
	p.ok(abi.CallLaunch, doubleOf(f.Hfunc, 0, at, oldCount), nil)
	return p
}

// readOld reads the golden session and what was in its memory, by chunk. They are written by a
// program of that time: with -golden, where they are missing.
func readOld(t *testing.T) (data []byte, chunks map[uint64][]byte) {
	t.Helper()
	sessionPath, memoryPath := filepath.Join(
		"testdata",
		"window3000.session",
	), filepath.Join(
		"testdata",
		"window3000.memory",
	)
	data, err := os.ReadFile(sessionPath)
	if errors.Is(err, os.ErrNotExist) && *golden {
		p := oldProgram(t)
		p.quiet()
		if data, err = p.session.Save(); err == nil {
			err = errors.Join(
				os.WriteFile(sessionPath, data, 0o644),
				os.WriteFile(memoryPath, packChunks(chunksOf(t, p.session.Memories())), 0o644),
			)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(memoryPath)
	if err != nil {
		t.Fatal(err)
	}
	return data, unpackChunks(packed)
}

// packChunks writes addresses and contents without the zeros at their ends.
func packChunks(chunks map[uint64][]byte) (packed []byte) {
	for _, address := range slices.Sorted(maps.Keys(chunks)) {
		content := chunks[address]
		for len(content) > 0 && content[len(content)-1] == 0 {
			content = content[:len(content)-1]
		}
		packed = binary.LittleEndian.AppendUint64(packed, address)
		packed = append(binary.LittleEndian.AppendUint64(packed, uint64(len(content))), content...)
	}
	return packed
}

func unpackChunks(packed []byte) map[uint64][]byte {
	chunks := map[uint64][]byte{}
	for len(packed) > 0 {
		address, bytes := binary.LittleEndian.Uint64(packed), binary.LittleEndian.Uint64(packed[8:])
		chunks[address], packed = packed[16:][:bytes], packed[16+bytes:]
	}
	return chunks
}

// restoreOld restores the golden session, changed or not.
func restoreOld(t *testing.T, data []byte, chunks map[uint64][]byte) (*program, error) {
	t.Helper()
	backend, err := soft.Open(oldSpec, soft.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	q := &program{
		t:       t,
		memory:  make([]byte, 1<<18),
		arena:   make([]byte, 1<<20),
		replies: map[uint64]chan answer{},
		words:   map[uint32]uint64{},
	}
	complete := false
	q.session, err = Restore(Options{
		Backend: backend, Program: q, Arena: q, Answers: q, Share: q.share,
		Backing: func(_ int, memory gpu.Memory) heap.Backing { return lazily{memory, chunks, &complete} },
	}, data)
	complete = true
	t.Cleanup(func() {
		if q.session != nil {
			err = q.session.Close()
		} else {
			err = nil
		}
		if err := errors.Join(err, backend.Close()); err != nil {
			t.Error(err)
		}
	})
	return q, err
}

// TestRestoreOldWindow restores what was saved when device memory lay elsewhere. It stays there,
// and so does what comes later.
func TestRestoreOldWindow(t *testing.T) {
	data, chunks := readOld(t)
	in, err := saved.Decode(data)
	if err != nil || in.Devices[0].Window != oldWindow || oldWindow == gpu.DefaultWindow(0, 1) {
		t.Fatalf("%v, %v: no old session", in.Devices, err)
	}
	q, err := restoreOld(t, data, chunks)
	if err != nil {
		t.Fatal(err)
	}
	var function, module abi.Handle
	var buffer uint64
	for _, o := range in.Objects {
		switch o.State.(type) {
		case *saved.Context:
			q.context = abi.Handle(o.ID)
		case *saved.Function:
			function, module = abi.Handle(o.ID), abi.Handle(o.Owner)
		case *saved.Memory:
			buffer = o.ID
		}
	}
	mapped := in.Reservations[0].Address
	for i, at := range []uint64{buffer, mapped} {
		if !oldWindow.Contains(gpu.Range{Address: at, Bytes: 1}) {
			t.Errorf("%#x is not in the old window", at)
		}
		q.ok(abi.CallLaunch, doubleOf(function, 0, at, oldCount), nil)
		if err := q.copyOut(0, at, 4*oldCount); err != nil {
			t.Fatal(err)
		}
		for n := range oldCount {
			if got, want := binary.LittleEndian.Uint32(q.memory[4*n:]), uint32(n)<<(2+i); got != want {
				t.Fatalf("number %d at %#x is %d, want %d", n, at, got, want)
			}
		}
	}
	var calls wire.ModuleGetGlobalReply
	q.ok(abi.CallModuleGetGlobal, &wire.ModuleGetGlobal{Hmod: module, Name: "calls"}, &calls)
	q.sees(calls.Dptr, 5*oldCount)
	further, _ := placedOn(q, 0)
	for _, at := range []uint64{q.alloc(4096), q.alloc(3 << 20), further} {
		if !oldWindow.Contains(gpu.Range{Address: at, Bytes: 3 << 20}) {
			t.Errorf("%#x is not in the old window, which the program knows", at)
		}
	}
}

// TestRestoreRefusesWindows: no session can have had such windows.
func TestRestoreRefusesWindows(t *testing.T) {
	data, chunks := readOld(t)
	for name, window := range map[string]gpu.Range{
		"none":           {},
		"too large":      {Address: oldWindow.Address, Bytes: 2 * gpu.MaxWindowBytes},
		"beyond all":     {Address: 1 << 47, Bytes: 1 << 40},
		"around the end": {Address: 1<<64 - 1<<40, Bytes: 1 << 40},
		"half a chunk":   {Address: oldWindow.Address + gpu.ChunkBytes/2, Bytes: 1 << 39},
		"on the arena":   {Address: arenaBase - 1<<39, Bytes: 1 << 40},
		"elsewhere":      gpu.DefaultWindow(0, 1),
	} {
		in, err := saved.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		in.Devices[0].Window = window
		changed, err := saved.Encode(in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := restoreOld(t, changed, chunks); !errors.Is(err, saved.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
