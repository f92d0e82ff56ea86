package nesting

import (
	"log/slog"
	"os"
	"testing"

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
	// Nobody waits for some of the calls: they have all been seen when a later one is answered. That one counts each time.
	calls := func() uint64 {
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
