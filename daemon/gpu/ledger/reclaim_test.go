package ledger

import "testing"

// TestReclaimRequests checks that a request finds the slots with unreclaimed memory, except its
// own.
func TestReclaimRequests(t *testing.T) {
	l := create(t, 100, 100)
	for _, slot := range []int{2, 5} {
		if err := l.Reserve(0, slot, 10); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name  string
		do    func()
		slot  int
		owed  bool
		count uint64
	}{
		{"no unreclaimed memory", func() {}, 2, false, 0},
		{"in another slot", func() { l.SetUnreclaimed(5, true) }, 2, true, 1},
		{"in the own slot only", func() {}, 5, false, 1},
		{"in two slots", func() { l.SetUnreclaimed(2, true) }, 5, true, 2},
		{"reclaimed", func() { l.SetUnreclaimed(5, false) }, 2, false, 2},
		{"slot cleared", func() { l.Clear(2) }, 5, false, 2},
	} {
		step.do()
		if owed := l.RequestReclaim(1, step.slot); owed != step.owed || l.ReclaimRequests(1) != step.count ||
			l.ReclaimRequests(0) != 0 {
			t.Errorf("%s: got %v and %d requests, want %v and %d", step.name, owed, l.ReclaimRequests(1), step.owed, step.count)
		}
	}
}
