package ledger

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// newLedger creates a ledger of two GPUs with 1,000 bytes each.
func newLedger(t *testing.T) *Ledger {
	t.Helper()
	l, err := Create(filepath.Join(t.TempDir(), "ledger"), []uint64{1000, 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestTenants checks that the limit of a tenant is one for all of its slots, and for no other slot.
func TestTenants(t *testing.T) {
	l := newLedger(t)
	l.SetLimits(600, 0)
	for slot, tenant := range []uint16{1, 1, 2, 0} {
		l.SetTenant(slot, tenant)
	}
	for i, step := range []struct {
		gpu, slot int
		bytes     uint64
		share     bool // a ShareError is wanted
	}{
		{0, 0, 400, false},
		{0, 1, 300, true},
		{0, 1, 200, false},
		{0, 0, 1, true},
		{1, 0, 600, false},
		{0, 2, 300, false},
		{1, 3, 400, false},
	} {
		err := l.Reserve(step.gpu, step.slot, step.bytes)
		if IsShare(err) != step.share || !step.share && err != nil || step.share && !errors.Is(err, abi.OutOfMemory) {
			t.Errorf("step %d: got %v, want a ShareError = %v", i, err, step.share)
		}
	}
	l.Clear(0)
	if err := l.Reserve(0, 0, 100); err != nil {
		t.Errorf("a cleared slot: got %v, want no tenant", err)
	}
}

// slotsOfOneTenant opens the ledger as the workers of n slots of one tenant do.
func slotsOfOneTenant(t *testing.T, l *Ledger, n int) []*Ledger {
	t.Helper()
	shared := make([]*Ledger, n)
	for slot := range shared {
		l.SetTenant(slot, 7)
		file, err := os.OpenFile(l.File().Name(), os.O_RDWR, 0)
		if err == nil {
			shared[slot], err = Open(file)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = shared[slot].Close() })
	}
	return shared
}

// TestTenantsRace checks that slots of one tenant that reserve at once never exceed its limit, and
// that they get all of it.
func TestTenantsRace(t *testing.T) {
	l := newLedger(t)
	l.SetLimits(64, 0)
	shared := slotsOfOneTenant(t, l, 4)
	var all sync.WaitGroup
	for slot, each := range shared {
		all.Go(func() {
			for range 32 {
				_ = each.Reserve(0, slot, 1)
			}
		})
	}
	all.Wait()
	if used, _ := l.Usage(0); used != 64 {
		t.Errorf("got %d bytes, want 64", used)
	}
}

// TestHost checks the shares of host memory: fixed, and relative to what is free.
func TestHost(t *testing.T) {
	l := newLedger(t)
	for slot, tenant := range []uint16{1, 1, 2} {
		l.SetTenant(slot, tenant)
	}
	for i, step := range []struct {
		slot        int
		bytes, free uint64
		share       bool
	}{{0, 40, 100, false}, {1, 30, 60, true}, {1, 20, 60, false}, {2, 40, 40, false}, {2, 1, 0, true}, {3, 10, 0, false}} {
		if err := l.ReserveHost(step.slot, step.bytes, step.free); IsShare(err) != step.share || !step.share && err != nil {
			t.Errorf("step %d: got %v, want a ShareError = %v", i, err, step.share)
		}
	}
	l.ReleaseHost(0, 10)
	l.SetLimits(0, 50)
	if err := l.ReserveHost(1, 1, 1000); !IsShare(err) {
		t.Errorf("beyond a fixed limit: got %v, want a ShareError", err)
	}
	if got := l.HostUsage(0); got != 30 {
		t.Errorf("slot 0 holds %d bytes, want 30", got)
	}
}

// TestOldLedger checks that a ledger of an older phosd, without the row of host memory, still
// works.
func TestOldLedger(t *testing.T) {
	l := newLedger(t)
	if err := os.Truncate(l.File().Name(), fileBytes(2)); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(l.File().Name(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	old, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	old.Clear(5)
	if err := errors.Join(old.ReserveHost(5, 1<<40, 0), old.Reserve(1, 5, 1000)); err != nil || old.CountsHost() ||
		old.HostUsage(5) != 0 {
		t.Errorf("got %v, counts host memory = %v, want neither", err, old.CountsHost())
	}
}

// TestHostRace checks that slots of one tenant that reserve host memory at once, as its workers do,
// never exceed the limit.
func TestHostRace(t *testing.T) {
	const limit, part = 100, 60
	l := newLedger(t)
	l.SetLimits(0, limit)
	shared := slotsOfOneTenant(t, l, 2)
	exceeded := 0
	for range 10000 {
		var ready atomic.Int64
		var all sync.WaitGroup
		for slot, each := range shared {
			all.Go(func() {
				for ready.Add(1); ready.Load() < int64(len(shared)); { // all at once
					if runtime.GOMAXPROCS(0) == 1 {
						runtime.Gosched()
					}
				}
				_ = each.ReserveHost(slot, part, 0)
			})
		}
		all.Wait()
		sum := uint64(0)
		for slot := range shared {
			sum += l.HostUsage(slot)
			l.ReleaseHost(slot, part)
		}
		if sum > limit {
			exceeded++
		}
	}
	if exceeded > 0 {
		t.Errorf("the limit was exceeded %d times", exceeded)
	}
	if err := l.ReserveHost(0, math.MaxUint64, 0); !IsShare(err) {
		t.Errorf("all bytes: got %v, want a ShareError", err)
	}
	if err := l.ReserveHost(0, limit, 0); err != nil {
		t.Errorf("after all releases: got %v, want no error", err)
	}
	if err := l.ReserveHost(0, math.MaxUint64, 0); !IsShare(err) {
		t.Errorf("a sum that wraps: got %v, want a ShareError", err)
	}
}
