package nested

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/tests/harness"
)

// TestWindowsMove: a session that was saved elsewhere has the address windows that it had there.
// They may lie in the windows of other GPUs that are not in use yet.
func TestWindowsMove(t *testing.T) {
	if _, real := harness.Driver(); real {
		t.Skip("which addresses a driver refuses is known of our own only")
	}
	if !ownProcess(t, innerPhosd) {
		return
	}
	b, err := cuda.Open(cuda.Options{Library: library(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, second := b.Devices()[0].Window, b.Devices()[1].Window
	wide := gpu.Range{Address: first.Address, Bytes: second.End() - first.Address}

	if _, err := b.NewContext(0, gpu.ContextOptions{Window: gpu.Range{Address: 0x3000_0000_0000, Bytes: 1 << 40}}); err == nil {
		t.Error("a window where the driver has no addresses was granted")
	}
	useWindow(t, b, 0, first)() // the prepared context is unused
	if c, err := b.NewContext(0, gpu.ContextOptions{Window: wide}); err == nil {
		t.Error("a window over addresses that the driver has not was granted")
		_ = c.Close()
	}
	closeOne := useWindow(t, b, 0, second)
	if _, err := b.NewContext(1, gpu.ContextOptions{Window: second}); err == nil {
		t.Error("two GPUs in use have one window")
	}
	if _, err := b.NewContext(0, gpu.ContextOptions{Window: first}); err == nil {
		t.Error("a GPU in use has changed its window")
	}
	useWindow(t, b, 1, first)()
	closeOne()
	useWindow(t, b, 1, second)()
	useWindow(t, b, 0, first)()
}

// useWindow uses a GPU with a window, both ends of it; what it returns closes the context.
func useWindow(t *testing.T, b gpu.Backend, ordinal int, window gpu.Range) (closeContext func()) {
	t.Helper()
	c, err := b.NewContext(ordinal, gpu.ContextOptions{Window: window})
	if err != nil {
		t.Fatalf("GPU %d at %#x+%#x: %v", ordinal, window.Address, window.Bytes, err)
	}
	for i, at := range []uint64{window.Address, window.End() - gpu.ChunkBytes} {
		if err := c.Memory().Map(gpu.Range{Address: at, Bytes: gpu.ChunkBytes}); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 2)
		if _, err := c.Memory().WriteAt([]byte{byte(i), 7}, int64(at)); err != nil {
			t.Error(err)
		}
		if _, err := c.Memory().ReadAt(got, int64(at)); err != nil || got[0] != byte(i) || got[1] != 7 {
			t.Errorf("GPU %d at %#x: %v, %v", ordinal, at, got, err)
		}
	}
	return func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOldWindows brings a program back that was saved when windows were narrower, and saves it
// there: it keeps what it had, for good. One that has wide windows is refused where the driver has
// none.
func TestOldWindows(t *testing.T) {
	_, err := harness.CRIU()
	harness.Need(t, "criu", err)
	inner := harness.StartAlone(t, "--gpus=soft:1,deterministic")
	narrow := harness.StartOver(t, inner, frontDriver(t, "narrow.c"))
	wide := harness.StartOver(t, inner, filepath.Join(harness.Bin(), "libphos.so"))
	program := harness.CompileC(t, true, harness.Workload("checkpoint", "count.c"))
	start := func(daemon *harness.Daemon) *harness.Job {
		job := daemon.Job(t, program, "20", "50000", "1000")
		job.Hold = true
		return job.Start()
	}
	plain := start(wide)
	plain.Release()
	status := plain.Finish()
	want := plain.Result()

	job := start(narrow)
	for i, daemon := range []*harness.Daemon{wide, narrow} {
		job.WaitLines(5 + 5*i)
		job.Dump()
		job.WaitGone()
		job.Move(daemon)
		job.Restore()
	}
	job.Release()
	if got := job.Finish(); got != status {
		t.Errorf("it ends with status %d, want %d: %s", got, status, job.Stderr())
	}
	if differences := job.Result().Differs(want); differences != "" {
		t.Error(differences)
	}

	modern := start(wide)
	modern.WaitLines(5)
	modern.Dump()
	modern.WaitGone()
	modern.Move(narrow)
	if text, err := modern.TryCli("--restore", "--detach", "--dir", modern.Image); err == nil ||
		!strings.Contains(text, "reserve addresses") {
		t.Errorf("where the driver has no such window: %v: %s", err, text)
	}
	narrow.Empty()
	wide.Empty()
}

// TestPrepare: the context that is made in advance is the first one that is requested, and is ended
// if none is.
func TestPrepare(t *testing.T) {
	if !ownProcess(t, innerPhosd) {
		return
	}
	o := newFaultPlan(t)
	b, err := cuda.Open(cuda.Options{Library: o.library, Logger: slog.New(slog.DiscardHandler)})
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
	expect := func(what string, want uint64) {
		t.Helper()
		if got := o.counts()["cuCtxCreate_v2"]; got != want {
			t.Errorf("%s: the driver was asked for %d contexts; want %d", what, got, want)
		}
	}
	expect("one in advance for each GPU", 2)
	warm, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect("the one that was there", 2)
	cold, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect("another one", 3)
	for _, each := range []gpu.Context{warm, cold} {
		if err := each.Synchronize(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if ended := o.counts()["cuCtxDestroy_v2"]; ended != 3 {
		t.Errorf("the driver has ended %d contexts of 3", ended)
	}
}
