package nesting

import (
	"log/slog"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
)

// TestWarm: the context that is made beforehand is the first one that is asked for, and is ended where nobody asks.
func TestWarm(t *testing.T) {
	if !ownProcess(t, inner) {
		return
	}
	o := newOrders(t)
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
	expect("one beforehand for each GPU", 2)
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
