package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// mapAgain maps the same ledger a second time, like another process.
func mapAgain(t *testing.T, path string) *Ledger {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestStandby checks that as few standby workers as needed exit for a reservation, and none if that
// does not help.
func TestStandby(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	phosd, err := Create(path, []uint64{100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = phosd.Close() })
	const workers = 3
	var ended [workers]chan bool
	for slot := range workers {
		waiter := mapAgain(t, path)
		waiter.SetStandby(slot)
		if err := waiter.Reserve(0, slot, 20); err != nil {
			t.Fatal(err)
		}
		ended[slot] = make(chan bool, 1)
		go func() {
			wanted := waiter.AwaitStandbyRequest(slot)
			if wanted {
				waiter.Release(0, slot, 20)
			}
			ended[slot] <- wanted
		}()
	}
	program := mapAgain(t, path)
	const own = 7
	for _, step := range []struct {
		bytes uint64
		fits  bool
		used  uint64
	}{
		{101, false, 60}, // more than the capacity
		{40, true, 100},  // fits
		{1, true, 81},
		{20, true, 81},
	} {
		err := program.Reserve(0, own, step.bytes)
		if (err == nil) != step.fits || err != nil && !errors.Is(err, abi.OutOfMemory) {
			t.Fatalf("%d bytes: %v", step.bytes, err)
		}
		if used, _ := phosd.Usage(0); used != step.used {
			t.Errorf("after %d bytes: %d in use, want %d", step.bytes, used, step.used)
		}
	}
	// Slots 2 and 1 were asked, in this order; slot 0 gets a session.
	for slot := 1; slot < workers; slot++ {
		if !<-ended[slot] {
			t.Errorf("slot %d was not wanted", slot)
		}
	}
	if !phosd.ClaimStandby(0) {
		t.Error("slot 0 is no longer in standby")
	}
	phosd.WakeStandby()
	if <-ended[0] {
		t.Error("slot 0 was wanted although it has a session")
	}
	if phosd.ClaimStandby(0) || phosd.ClaimStandby(1) {
		t.Error("a slot was claimed twice")
	}
	if err := program.Reserve(0, own, 30); !errors.Is(err, abi.OutOfMemory) {
		t.Errorf("memory of a session was reserved: %v", err)
	}
}
