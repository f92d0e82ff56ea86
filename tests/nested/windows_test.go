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

// TestWindowsMove: a session from another machine keeps its address windows. They may lie in
// windows of other GPUs that are not in use yet.
func TestWindowsMove(t *testing.T) {
	if _, real := harness.Driver(); real {
		t.Skip("needs our own driver, whose refused addresses are known")
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

	if _, err := b.NewContext(
		0, gpu.ContextOptions{Window: gpu.Range{Address: 0x3000_0000_0000, Bytes: 1 << 40}},
	); err == nil {
		t.Error("got a window at addresses that the driver does not have")
	}
	useWindow(t, b, 0, first)() // the prepared context is unused
	if c, err := b.NewContext(0, gpu.ContextOptions{Window: wide}); err == nil {
		t.Error("got a window across addresses that the driver does not have")
		_ = c.Close()
	}
	closeOne := useWindow(t, b, 0, second)
	if _, err := b.NewContext(1, gpu.ContextOptions{Window: second}); err == nil {
		t.Error("two GPUs in use have the same window")
	}
	if _, err := b.NewContext(0, gpu.ContextOptions{Window: first}); err == nil {
		t.Error("the window of a GPU in use has changed")
	}
	useWindow(t, b, 1, first)()
	closeOne()
	useWindow(t, b, 1, second)()
	useWindow(t, b, 0, first)()
}

// useWindow uses both ends of a GPU's window. closeContext closes the context.
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

// TestOldWindows restores a program from the time of smaller windows, and saves it there. It keeps
// its windows permanently. A program with large windows is refused if the driver does not have the
// addresses.
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
		t.Errorf("exited with status %d, want %d: %s", got, status, job.Stderr())
	}
	if differences := job.Result().Differs(want); differences != "" {
		t.Error(differences)
	}

	modern := start(wide)
	modern.WaitLines(5)
	modern.Dump()
	modern.WaitGone()
	modern.Move(narrow)
	if text, err := modern.TryCli("--restore", "--detach", "--trust-seal", "--dir", modern.Image); err == nil ||
		!strings.Contains(text, "reserve addresses") {
		t.Errorf("restore without such a window in the driver: %v: %s", err, text)
	}
	narrow.Empty()
	wide.Empty()
}

// TestPrepare: the context that was created in advance serves the first request, or is destroyed if
// there is none.
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
			if held, err := b.PrepareContext(ordinal); err != nil || held == 0 {
				t.Fatalf("GPU %d: %d bytes, %v", ordinal, held, err)
			}
		}
	}
	expect := func(what string, want uint64) {
		t.Helper()
		if got := o.counts()["cuCtxCreate_v2"]; got != want {
			t.Errorf("%s: got %d contexts, want %d", what, got, want)
		}
	}
	expect("one in advance for each GPU", 2)
	prepared, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect("the prepared one", 2)
	fresh, err := b.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect("another one", 3)
	for _, each := range []gpu.Context{prepared, fresh} {
		if err := each.Synchronize(); err != nil {
			t.Error(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if ended := o.counts()["cuCtxDestroy_v2"]; ended != 3 {
		t.Errorf("got %d destroyed contexts, want 3", ended)
	}
}
