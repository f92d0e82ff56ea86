package wire_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

// BenchmarkPost measures a launch with 8 arguments on the program's side, while the worker keeps
// up.
func BenchmarkPost(b *testing.B) {
	file := newFile(b)
	serve(b, file, func(*wire.Frame) (abi.Result, wire.Reply) { return 0, nil })
	thread := wiretest.New(file, nil).NewThread()
	launch := &wire.Launch{
		Function: 1,
		GridX:    1,
		GridY:    1,
		GridZ:    1,
		BlockX:   128,
		BlockY:   1,
		BlockZ:   1,
		Params:   make([]byte, 64),
	}
	for b.Loop() {
		thread.Post(abi.CallLaunch, launch)
	}
	for file.Word64(wire.WordTail).Load() != file.Word64(wire.WordHead).Load() {
		runtime.Gosched()
	}
}

// BenchmarkTake measures the worker's side of the same: take and decode.
func BenchmarkTake(b *testing.B) {
	file := newFile(b)
	thread := wiretest.New(file, nil).NewThread()
	launch := &wire.Launch{Function: 1, Params: make([]byte, 64)}
	const batch = 4096
	ring := file.Ring()
	for done := 0; done < b.N; done += batch {
		b.StopTimer()
		file.Word64(wire.WordTail).Store(file.Word64(wire.WordHead).Load())
		for range batch {
			thread.Post(abi.CallLaunch, launch)
		}
		b.StartTimer()
		for range batch {
			frame, err := ring.Next()
			var in wire.Launch
			if err != nil || frame == nil || in.Decode(frame.Payload) != nil {
				b.Fatal(frame, err)
			}
		}
	}
}

// BenchmarkCall measures a synchronous call and a bare ping-pong on two words of the same file. The
// ratio is the cost of the transport.
func BenchmarkCall(b *testing.B) {
	file := newFile(b)
	serve(b, file, echo)
	thread := wiretest.New(file, nil).NewThread()
	in, out := &wire.MemAlloc{Bytesize: 1}, &wire.MemAllocReply{}
	start := time.Now()
	for b.Loop() {
		if _, err := thread.Call(abi.CallMemAlloc, in, out); err != nil {
			b.Fatal(err)
		}
	}
	call := float64(time.Since(start)) / float64(b.N)
	b.ReportMetric(call/pingPong(newFile(b), 200_000), "x_pingpong")
}

// pingPong returns nanoseconds per round trip.
func pingPong(file *wire.File, rounds uint64) float64 {
	ping, pong := file.Word64(wire.WordHead), file.Word64(wire.WordTail)
	go func() {
		runtime.LockOSThread()
		for i := uint64(1); i <= rounds; i++ {
			for ping.Load() != i {
			}
			pong.Store(i)
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := time.Now()
	for i := uint64(1); i <= rounds; i++ {
		ping.Store(i)
		for pong.Load() != i {
		}
	}
	return float64(time.Since(start)) / float64(rounds)
}
