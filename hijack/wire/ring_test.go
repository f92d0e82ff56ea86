package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

func newFile(t testing.TB) *wire.File {
	t.Helper()
	file, err := wire.Create(filepath.Join(t.TempDir(), "session"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// serve runs a worker's loop until the test ends or stop is called. It answers every waiting call
// with the result of reply.
func serve(t testing.TB, file *wire.File, reply func(*wire.Frame) (abi.Result, wire.Reply)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	slots := file.Slots()
	go func() {
		done <- file.Ring().Run(ctx, func(f *wire.Frame) {
			result, out := reply(f)
			if f.Flags&wire.FlagWait == 0 {
				return
			}
			var data []byte
			if out != nil {
				data = out.Append(nil)
			}
			slots.Reply(f.Slot, f.Sequence, result, data)
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ring: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func echo(f *wire.Frame) (abi.Result, wire.Reply) {
	if f.Call != abi.CallMemAlloc {
		return abi.NotSupported, nil
	}
	var in wire.MemAlloc
	if err := in.Decode(f.Payload); err != nil {
		return abi.InvalidValue, nil
	}
	return abi.Success, &wire.MemAllocReply{Dptr: in.Bytesize + 1}
}

func TestCall(t *testing.T) {
	file := newFile(t)
	serve(t, file, echo)
	thread := wiretest.New(file, nil).NewThread()
	for i := range uint64(10_000) {
		var out wire.MemAllocReply
		result, err := thread.Call(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: i}, &out)
		if result != abi.Success || err != nil || out.Dptr != i+1 {
			t.Fatalf("call %d: %v, %v, address %d", i, result, err, out.Dptr)
		}
	}
	if result, _ := thread.Call(abi.CallPing, nil, nil); result != abi.NotSupported {
		t.Errorf("ping: %v", result)
	}
}

// TestAsleep lets both sides fall asleep between calls. A lost wake-up makes a call slow, or the
// test hang.
func TestAsleep(t *testing.T) {
	file := newFile(t)
	serve(t, file, func(f *wire.Frame) (abi.Result, wire.Reply) {
		time.Sleep(500 * time.Microsecond) // the program falls asleep
		return echo(f)
	})
	thread := wiretest.New(file, nil).NewThread()
	for i := range uint64(50) {
		time.Sleep(300 * time.Microsecond) // the worker falls asleep
		var out wire.MemAllocReply
		if result, err := thread.Call(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: i}, &out); result != 0 || err != nil ||
			out.Dptr != i+1 {
			t.Fatalf("call %d: %v, %v", i, result, err)
		}
	}
}

// TestOrder posts frames of every length from several threads, many times around the ring. It
// checks that each arrives complete and in its thread's order.
func TestOrder(t *testing.T) {
	const threads, rounds = 3, 4000
	file := newFile(t)
	var next [threads]uint64
	var wrong sync.Once
	finished := make(chan struct{})
	left := threads * rounds
	serve(t, file, func(f *wire.Frame) (abi.Result, wire.Reply) {
		var in wire.MemcpyInline
		if err := in.Decode(f.Payload); err != nil {
			wrong.Do(func() { t.Errorf("frame %d: %v", f.Sequence, err) })
		}
		from, n := in.Dst>>32, in.Dst&0xffff_ffff
		if n != next[from] || !bytes.Equal(in.Bytes, pattern(int(n), byte(from))) {
			wrong.Do(func() { t.Errorf("thread %d, frame %d: want %d", from, n, next[from]) })
		}
		next[from]++
		if left--; left == 0 {
			close(finished)
		}
		return 0, nil
	})
	program := wiretest.New(file, nil)
	for from := range threads {
		thread := program.NewThread()
		go func() {
			for n := range rounds {
				thread.Post(
					abi.CallMemcpyInline,
					&wire.MemcpyInline{Dst: uint64(from)<<32 | uint64(n), Bytes: pattern(n, byte(from))},
				)
			}
		}()
	}
	<-finished
}

func pattern(n int, seed byte) []byte { return bytes.Repeat([]byte{seed + byte(n)}, n) }

// TestLargest posts frames of the maximum size, which leave long padding at the end of the ring.
func TestLargest(t *testing.T) {
	file := newFile(t)
	seen := make(chan int, 32)
	serve(t, file, func(f *wire.Frame) (abi.Result, wire.Reply) { seen <- len(f.Payload); return 0, nil })
	thread := wiretest.New(file, nil).NewThread()
	for range 16 {
		thread.PostFrame(abi.CallMemcpyInline, 0, make([]byte, wire.FrameMax))
		if got := <-seen; got != wire.FrameMax-wire.FrameHeader {
			t.Fatalf("payload of %d bytes", got)
		}
	}
}

// TestDamage checks that every kind of invalid content is detected, reported and ends the loop.
func TestDamage(t *testing.T) {
	frame := func(length, slot uint32, call uint16) []byte {
		b := make([]byte, wire.FrameHeader)
		binary.LittleEndian.PutUint32(b, length)
		binary.LittleEndian.PutUint16(b[4:], call)
		binary.LittleEndian.PutUint32(b[8:], slot)
		return b
	}
	for _, test := range []struct {
		name  string
		tail  uint64
		head  uint64
		frame []byte
		want  string
	}{
		{"head too far", 0, wire.RingBytes + 64, nil, "head"},
		{"head behind", 128, 64, nil, "head"},
		{"head misaligned", 0, 65, nil, "head"},
		{"length 0", 0, 64, frame(0, 0, 1), "frame of 0 bytes"},
		{"shorter than a header", 0, 64, frame(31, 0, 1), "frame of 31 bytes"},
		{"longer than posted", 0, 64, frame(65, 0, 1), "65 bytes, 64 posted"},
		{"as long as can be", 0, 64, frame(1<<32-1, 0, 1), "posted"},
		{"across the end", wire.RingBytes - 64, wire.RingBytes + 64, frame(128, 0, 1), "crosses"},
		{"padding across the end", wire.RingBytes - 64, wire.RingBytes + 64, frame(128, 0, 0), "crosses"},
		{"too long", 0, wire.RingBytes, frame(wire.FrameMax+1, 0, 1), "limit"},
		{"a header too long", 0, wire.RingBytes, frame(wire.FrameMax+wire.FrameHeader, 0, 1), "limit"},
		{"slot", 0, 64, frame(64, wire.SlotCount, 1), "slot"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := newFile(t)
			file.Word64(wire.WordTail).Store(test.tail)
			file.Word64(wire.WordHead).Store(test.head)
			copy(file.Region(wire.RingOffset, wire.RingBytes)[test.tail:], test.frame)
			err := file.Ring().Run(context.Background(), func(f *wire.Frame) { t.Errorf("handled %+v", f) })
			if !errors.Is(err, wire.ErrRing) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestChanging flips bytes of the ring while it is read. Frames must stay within their bounds, and
// the loop must continue or end with an error; it must not panic.
func TestChanging(t *testing.T) {
	file := newFile(t)
	ring := file.Region(wire.RingOffset, wire.RingBytes)
	stop := make(chan struct{})
	var hostile sync.WaitGroup
	hostile.Go(func() {
		for i := uint32(1); ; i = i*1664525 + 1013904223 {
			select {
			case <-stop:
				return
			default:
				file.Word32(wire.RingOffset + int(i>>8%1024)*64).Store(i >> (i & 31))
			}
		}
	})
	for i := range 2000 {
		file.Word64(wire.WordTail).Store(0)
		file.Word64(wire.WordHead).Store(uint64(i%2048+1) * 64)
		binary.LittleEndian.PutUint16(ring[4:], 7)
		r := file.Ring()
		for {
			f, err := r.Next()
			if err != nil || f == nil {
				break
			}
			if len(f.Payload) > wire.FrameMax || f.Slot >= wire.SlotCount {
				t.Fatalf("frame %+v", f)
			}
		}
	}
	close(stop)
	hostile.Wait()
}

func FuzzRing(f *testing.F) {
	seed := make([]byte, 128)
	binary.LittleEndian.PutUint32(seed, 40)
	binary.LittleEndian.PutUint16(seed[4:], uint16(abi.CallMemAlloc))
	f.Add(uint64(0), uint64(128), seed)
	f.Add(uint64(wire.RingBytes-64), uint64(wire.RingBytes+64), seed)
	f.Add(uint64(1<<63), uint64(1<<63+64), seed[:32])
	file := newFile(f)
	f.Fuzz(func(t *testing.T, tail, head uint64, content []byte) {
		tail &^= 63
		ring := file.Region(wire.RingOffset, wire.RingBytes)
		clear(ring[:4096])
		clear(ring[wire.RingBytes-4096:])
		n := copy(ring[tail%wire.RingBytes:], content)
		copy(ring, content[n:])
		file.Word64(wire.WordTail).Store(tail)
		file.Word64(wire.WordHead).Store(head)
		r := file.Ring()
		for range 100_000 {
			frame, err := r.Next()
			if err != nil && !errors.Is(err, wire.ErrRing) {
				t.Fatalf("unexpected error: %v", err)
			}
			if err != nil || frame == nil {
				return
			}
			if in := wire.NewMessage(frame.Call); in != nil {
				in.Decode(frame.Payload)
			}
		}
		t.Fatal("the ring did not become empty")
	})
}
