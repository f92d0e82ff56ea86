package ledger

import (
	"sync"
	"testing"
)

// TestShareOfFree checks the share that no setting limits, step by step, on a GPU of 1,000 bytes.
func TestShareOfFree(t *testing.T) {
	l := newLedger(t)
	for slot, tenant := range []uint16{1, 1, 2, 3, 0} {
		l.SetTenant(slot, tenant)
	}
	for i, step := range []struct {
		slot    int
		bytes   uint64
		refused bool
		limit   uint64 // of the slot's tenant after the step
	}{
		{0, 600, false, 1000}, // a user alone may have all of it
		{1, 200, false, 1000},
		{2, 501, true, 500}, // the second may have a half, although less is free
		{2, 100, false, 500},
		{0, 1, true, 500}, // the first has more than an equal part already
		{3, 1, false, 333},
		{4, 99, false, 0}, // root takes what it finds
		{4, 1, true, 0},
	} {
		err := l.Reserve(0, step.slot, step.bytes)
		if (err != nil) != step.refused {
			t.Errorf("step %d: got %v, want an error = %v", i, err, step.refused)
		}
		if _, limit, _ := l.Share(0, step.slot); limit != step.limit {
			t.Errorf("step %d: the share is %d, want %d", i, limit, step.limit)
		}
	}
	l.Clear(2)
	l.Clear(3)
	if got := l.Within(0, 1, 101); got != 101 {
		t.Errorf("alone again: %d bytes may be reserved, want all 101", got)
	}
}

// TestShareLeavesRoom: of many users with little, one gets as much as stays free, and the next does
// so too.
func TestShareLeavesRoom(t *testing.T) {
	l := newLedger(t)
	const idle = 20
	for slot := range idle {
		l.SetTenant(slot, uint16(slot+1))
		if err := l.Reserve(0, slot, 10); err != nil {
			t.Fatal(err)
		}
	}
	for slot, most := range []uint64{395, 197, 99} {
		if got := l.Within(0, slot, 1000); got != most {
			t.Errorf("user %d may reserve %d bytes, want %d", slot, got, most)
		}
		if err := l.Reserve(0, slot, most+1); !IsShare(err) {
			t.Errorf("user %d: one byte more: got %v, want a ShareError", slot, err)
		}
		if err := l.Reserve(0, slot, most); err != nil {
			t.Errorf("user %d: got %v", slot, err)
		}
	}
}

// TestShareIgnoresStandby: standby workers make room, so their memory limits no user's share.
func TestShareIgnoresStandby(t *testing.T) {
	l := newLedger(t)
	l.SetTenant(0, 1)
	l.SetTenant(1, 2)
	l.SetStandby(2)
	for slot, bytes := range []uint64{100, 100, 300} {
		if err := l.Reserve(0, slot, bytes); err != nil {
			t.Fatal(err)
		}
	}
	if _, limit, _ := l.Share(0, 0); limit != 500 {
		t.Errorf("the share is %d, want 500", limit)
	}
}

// TestShareRace: users that reserve at once get all of a GPU between them, and none gets more than
// the first of them could have.
func TestShareRace(t *testing.T) {
	l := newLedger(t)
	const users = 4
	shared := slotsOfOneTenant(t, l, users)
	for slot := range users {
		l.SetTenant(slot, uint16(slot+1))
		if err := l.Reserve(0, slot, 1); err != nil { // now each knows of all
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for slot, each := range shared {
		all.Go(func() {
			for range 1000 {
				_ = each.Reserve(0, slot, 1)
			}
		})
	}
	all.Wait()
	for slot := range users {
		if got := l.SlotUsage(0, slot); got > (1+1000-users)/2+1 {
			t.Errorf("user %d has %d bytes, more than what was free", slot, got)
		}
	}
	if used, _ := l.Usage(0); used != 1000 {
		t.Errorf("all have %d bytes, want 1000", used)
	}
}
