package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

// Threads call while their session is moved to another file and another worker: no call is lost, none is answered wrong.
func TestRestore(t *testing.T) {
	first := newFile(t)
	first.SetHeader(wire.Header{Session: 7, ArenaBase: 1 << 45, ArenaBytes: 1 << 30})
	first.Fail(abi.InvalidValue)
	first.CompleteEvent(3, 17)
	if _, err := first.Output().Write([]byte("not printed yet")); err != nil {
		t.Fatal(err)
	}
	copy(first.Region(wire.BounceOffset, 4), "gone")
	stop := serve(t, first, echo)
	program := wiretest.New(first, nil)
	var calling sync.WaitGroup
	for range 4 {
		calling.Go(func() {
			thread := program.NewThread()
			for i := range uint64(3000) {
				var out wire.MemAllocReply
				if result, err := thread.Call(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: i}, &out); result != 0 || err != nil || out.Dptr != i+1 {
					t.Errorf("call %d: %v, %v, %d", i, result, err, out.Dptr)
				}
			}
		})
	}
	file := first
	for session := uint64(8); session < 28; session++ {
		file.SetGate(true)
		program.Freeze()
		for file.Word64(wire.WordHead).Load() != file.Word64(wire.WordTail).Load() {
			runtime.Gosched()
		}
		stop()
		saved := file.Save()
		next := newFile(t)
		if err := next.Restore(saved, session); err != nil {
			t.Fatal(err)
		}
		program.Move(next)
		stop = serve(t, next, echo)
		program.Thaw()
		next.SetGate(false)
		file = next
	}
	calling.Wait()
	if got := program.Session(); got != 27 {
		t.Errorf("session %d, want 27", got)
	}
	if got := program.Output(); got != "not printed yet" {
		t.Errorf("printed %q", got)
	}
	if got := file.Word64(wire.EventsOffset + 3*8).Load(); got != 17 {
		t.Errorf("event word %d, want 17", got)
	}
	if got := file.Word32(wire.WordError).Load(); got != uint32(abi.InvalidValue) {
		t.Errorf("error word %d", got)
	}
	if epoch, gate := file.Word32(wire.WordEpoch).Load(), file.Word32(wire.WordGate).Load(); epoch != 20 || gate != 0 {
		t.Errorf("epoch %d, gate %d", epoch, gate)
	}
	if !bytes.Equal(file.Region(wire.BounceOffset, 4), make([]byte, 4)) {
		t.Error("the bounce area was saved")
	}
}

func TestRestoreRefuses(t *testing.T) {
	file := newFile(t)
	file.SetHeader(wire.Header{Session: 7})
	good := file.Save()
	word := func(offset int, value uint32) []byte {
		bad := bytes.Clone(good)
		binary.LittleEndian.PutUint32(bad[offset:], value)
		return bad
	}
	for name, saved := range map[string][]byte{
		"nothing":         nil,
		"shorter":         good[:len(good)-1],
		"longer":          append(bytes.Clone(good), 0),
		"no session file": word(wire.WordMagic, 1),
		"another version": word(wire.WordVersion, wire.Version-1),
		"calls undone":    word(wire.WordHead, 64),
	} {
		if err := newFile(t).Restore(saved, 8); !errors.Is(err, wire.ErrSaved) {
			t.Errorf("%s: %v, want ErrSaved", name, err)
		}
	}
	if err := newFile(t).Restore(good, 8); err != nil {
		t.Error(err)
	}
}
