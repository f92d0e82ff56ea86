package nesting

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/daemon/rpc"
	"github.com/phos-gpu/phos/tests/lab"
)

// TestWarm: the context that is made beforehand is the first one that is asked for, and is ended where nobody asks.
func TestWarm(t *testing.T) {
	socket := os.Getenv(innerSocket)
	if socket == "" {
		// A process has one session behind the driver, which ends with the phosd there.
		alone(t, lab.Start(t, "--gpus=soft:2").Socket, "^TestWarm$")
		return
	}
	t.Setenv(rpc.SocketVariable, socket)
	inner, err := rpc.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	b, err := cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for ordinal := range b.Devices() {
		for range 2 {
			if held, err := b.Warm(ordinal); err != nil || held == 0 {
				t.Fatalf("GPU %d: %d bytes, %v", ordinal, held, err)
			}
		}
	}
	witness, err := b.NewContext(1, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := func() uint64 {
		t.Helper()
		if err := witness.Synchronize(); err != nil {
			t.Fatal(err)
		}
		status, err := inner.Daemon.Status(t.Context(), &rpc.StatusRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return status.GetPrograms()[0].GetDescription().GetProgress().GetCallsMade()
	}
	// Some of the calls are made behind the caller's back: they are counted once none has come for half a second. The witness's own, one each
	// time, are left out.
	looked := uint64(0)
	calls := func() uint64 {
		t.Helper()
		last := made() - looked
		looked++
		for quiet := 0; quiet < 10; quiet++ {
			time.Sleep(50 * time.Millisecond)
			now := made() - looked
			looked++
			if now != last {
				last, quiet = now, 0
			}
		}
		return last
	}
	before := calls()
	warm, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := calls() - before
	cold, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if second := calls() - before - first; second != first+1 {
		t.Errorf("a context that was made beforehand takes %d calls of the driver, another one %d; want one more", first, second)
	}
	for _, each := range []gpu.Context{warm, cold, witness} {
		if err := each.Synchronize(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
