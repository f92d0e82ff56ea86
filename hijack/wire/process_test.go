package wire_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
	"github.com/phos-gpu/phos/hijack/wire/wiretest"
)

const programEnv = "WIRE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if path := os.Getenv(programEnv); path != "" {
		if err := program(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// program runs the second process of TestTwoProcesses.
func program(path string) error {
	file, err := wire.Open(path)
	if err != nil {
		return err
	}
	thread := wiretest.New(file, nil).NewThread()
	for i := range uint64(20_000) {
		thread.Post(abi.CallLaunch, &wire.Launch{Function: i})
		var out wire.MemAllocReply
		if result, err := thread.Call(abi.CallMemAlloc, &wire.MemAlloc{Bytesize: i}, &out); result != 0 || err != nil ||
			out.Dptr != i+1 {
			return fmt.Errorf("call %d: %w, %w, address %d", i, result, err, out.Dptr)
		}
	}
	return nil
}

func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	file, err := wire.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	launches := uint64(0)
	stop := serve(t, file, func(f *wire.Frame) (abi.Result, wire.Reply) {
		if f.Call != abi.CallLaunch {
			return echo(f)
		}
		var in wire.Launch
		if err := in.Decode(f.Payload); err != nil || in.Function != launches {
			t.Errorf("launch %d: %+v, %v", launches, in, err)
		}
		launches++
		return 0, nil
	})
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), programEnv+"="+path)
	if output, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	stop() // before reading the count of the ring's goroutine
	if launches != 20_000 {
		t.Errorf("%d launches", launches)
	}
}

// BenchmarkIdle reports the CPU time of an idle worker's loop, in percent of a core.
func BenchmarkIdle(b *testing.B) {
	file := newFile(b)
	serve(b, file, echo)
	time.Sleep(10 * time.Millisecond)
	used, start := processorTime(), time.Now()
	for b.Loop() {
		time.Sleep(100 * time.Millisecond)
	}
	b.ReportMetric(100*float64(processorTime()-used)/float64(time.Since(start)), "%core")
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
