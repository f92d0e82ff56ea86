package wire_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

func TestHeader(t *testing.T) {
	file := newFile(t)
	want := wire.Header{
		Session: 7, ArenaBase: 1 << 45, ArenaBytes: 1 << 34, DriverVersion: 12040,
		Devices: []wire.Device{
			{
				Name:        "phos soft GPU",
				UUID:        [16]byte{1, 15: 2},
				MemoryBytes: 8 << 30,
				Attributes:  map[abi.DeviceAttribute]int32{1: 1024, 75: 9, 299: -1},
				Window:      3 << 44,
				WindowBytes: 1 << 40,
			},
			{Name: strings.Repeat("x", 255), MemoryBytes: 1, Attributes: map[abi.DeviceAttribute]int32{}},
		},
	}
	file.SetHeader(want)
	if got := file.Header(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	want.Devices[1].Name = strings.Repeat("y", 1000)
	want.Devices[1].Attributes[300] = 1
	file.SetHeader(want)
	if got := file.Header().Devices; len(got) != 2 || len(got[1].Name) != 255 || len(got[1].Attributes) != 0 {
		t.Errorf("truncated device: %+v", got[1])
	}
}

func TestOpenWrongSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := wire.Open(path); err == nil {
		file.Close()
		t.Error("Open of a file with a wrong size succeeded")
	}
}

func TestFail(t *testing.T) {
	file := newFile(t)
	file.Fail(abi.Success)
	file.Fail(abi.InvalidValue)
	file.Fail(abi.IllegalAddress)
	file.Fail(abi.LaunchFailed)
	if first, sticky := file.Word32(wire.WordError).Load(), file.Word32(wire.WordSticky).Load(); first != 1 ||
		sticky != 700 {
		t.Errorf("first error %d, sticky %d", first, sticky)
	}
}

func TestEvents(t *testing.T) {
	file := newFile(t)
	before := bytes.Clone(file.Region(wire.OutputOffset, 64))
	file.CompleteEvent(wire.EventCount-1, 5)
	file.CompleteEvent(wire.EventCount, 6)
	file.CompleteEvent(1<<32-1, 6)
	if got := file.Word64(wire.OutputOffset - 8).Load(); got != 5 ||
		!bytes.Equal(before, file.Region(wire.OutputOffset, 64)) {
		t.Errorf("word %d", got)
	}
}

func TestCallbacks(t *testing.T) {
	file := newFile(t)
	ring, program := file.Callbacks(), wiretest.New(file, nil)
	for id := range uint64(3 * wire.CallbackBytes / wire.CallbackRecord) {
		want := wire.Callback{
			Kind:     wire.CallbackStream,
			Status:   700,
			Function: id << 40,
			UserData: ^id,
			Stream:   2,
			ID:       id,
		}
		if err := ring.Post(want); err != nil {
			t.Fatal(err)
		}
		if got, ok := program.TakeCallback(); !ok || got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
	posted := 0
	for ring.Post(wire.Callback{}) == nil {
		posted++
	}
	if posted != wire.CallbackBytes/wire.CallbackRecord {
		t.Errorf("%d records fit", posted)
	}
	if err := ring.Post(wire.Callback{}); !errors.Is(err, abi.NotReady) {
		t.Errorf("full ring: %v", err)
	}
	file.Word64(wire.WordCallbackHead).Store(3) // as a hostile program may do
	file.Word64(wire.WordCallbackTail).Store(1 << 63)
	ring.Post(wire.Callback{})
}

func TestOutput(t *testing.T) {
	file := newFile(t)
	output, program := file.Output(), wiretest.New(file, nil)
	line := bytes.Repeat([]byte("0123456789"), 1000)
	for range 3 * wire.OutputBytes / len(line) {
		output.Write(line)
		if got := program.Output(); got != string(line) {
			t.Fatalf("got %d bytes", len(got))
		}
	}
	for range wire.OutputBytes/len(line) + 2 {
		output.Write(line)
	}
	if got := program.Output(); len(got)%len(line) != 0 {
		t.Errorf("got part of a line: %d bytes", len(got))
	}
	output.Write([]byte("next\n"))
	if got := program.Output(); got != "[phos: 20000 bytes of kernel output lost]\nnext\n" {
		t.Errorf("after a loss: %q", got)
	}
}

func TestArena(t *testing.T) {
	const size = 1 << 30
	path := filepath.Join(t.TempDir(), "arena")
	if err := wire.CreateArena(path, size); err != nil {
		t.Fatal(err)
	}
	first, second := openArena(t, path), openArena(t, path)
	address := uint64(wire.ArenaFirst + 5*wire.ArenaStride)
	if err := first.Place(address); err != nil {
		t.Fatal(err)
	}
	if err := second.Place(address); !errors.Is(err, wire.ErrTaken) {
		t.Errorf("second Place: got %v, want ErrTaken", err)
	}
	if err := second.Place(address + wire.ArenaStride); err != nil {
		t.Fatal(err)
	}
	if err := first.Reserve(1<<20, 8192); err != nil {
		t.Fatal(err)
	}
	first.Bytes()[1<<20] = 42
	if first.Address() != address || second.Bytes()[1<<20] != 42 {
		t.Error("the two mappings do not share memory")
	}
	if err := first.Punch(1<<20, 8192); err != nil || second.Bytes()[1<<20] != 0 {
		t.Errorf("punched page holds %d, %v", second.Bytes()[1<<20], err)
	}
}

func openArena(t *testing.T, path string) *wire.Arena {
	t.Helper()
	arena, err := wire.OpenArena(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := arena.Close(); err != nil {
			t.Error(err)
		}
	})
	return arena
}

// bytesAt is a piece of simulated program memory.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, at int64) (int, error) {
	if int(at)+len(p) > len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(p, b[at:]), nil
}

func (b bytesAt) WriteAt(p []byte, at int64) (int, error) {
	if int(at)+len(p) > len(b) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(b[at:], p), nil
}

// TestServedCopy copies more than the bounce area holds.
func TestServedCopy(t *testing.T) {
	t.Run("at once", func(t *testing.T) { testServedCopy(t, 0) })
	t.Run("in pieces", func(t *testing.T) { testServedCopy(t, wire.CopiesInPieces) })
}

func testServedCopy(t *testing.T, way uint32) {
	file := newFile(t)
	file.Word32(wire.WordCopies).Store(way)
	memory := make(bytesAt, 3*wire.BounceBytes)
	for i := range memory {
		memory[i] = byte(i * 7 / 5)
	}
	want := bytes.Clone(memory)
	slots := file.Slots()
	serve(t, file, func(f *wire.Frame) (abi.Result, wire.Reply) {
		program := slots.Memory(f.Slot)
		buffer := make([]byte, len(memory)-10)
		if n, err := program.ReadAt(buffer, 10); err != nil || n != len(buffer) || !bytes.Equal(buffer, want[10:]) {
			t.Errorf("read %d bytes: %v", n, err)
		}
		if n, err := program.WriteAt(buffer, 0); err != nil || n != len(buffer) {
			t.Errorf("wrote %d bytes: %v", n, err)
		}
		moves := map[string]func([]byte, int64) (int, error){"read": program.ReadAt, "write": program.WriteAt}
		for what, move := range moves {
			if _, err := move(buffer[:200], int64(len(memory))-100); !errors.Is(err, abi.InvalidValue) {
				t.Errorf("%s past the end: got %v, want InvalidValue", what, err)
			}
		}
		return abi.Success, nil
	})
	if result, _ := wiretest.New(file, memory).NewThread().Call(abi.CallPing, nil, nil); result != abi.Success {
		t.Fatal(result)
	}
	if !bytes.Equal(memory[:len(memory)-10], want[10:]) {
		t.Error("the program's memory differs from the written bytes")
	}
}

// TestNotServed checks that a program that never copies blocks only its own call.
func TestNotServed(t *testing.T) {
	slots := newFile(t).Slots()
	if _, err := slots.Memory(wire.SlotCount).WriteAt(make([]byte, 8), 0); !errors.Is(err, wire.ErrNotServed) {
		t.Errorf("no thread: %v", err)
	}
	done := make(chan error)
	go func() {
		_, err := slots.Memory(3).ReadAt(make([]byte, 8), 0)
		done <- err
	}()
	slots.Close()
	if err := <-done; !errors.Is(err, wire.ErrNotServed) {
		t.Errorf("got %v", err)
	}
}
