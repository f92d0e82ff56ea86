package ledger

import (
	"errors"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
)

// TestOwn checks that memory hidden from the program is missing in ProgramUsage only.
func TestOwn(t *testing.T) {
	l := create(t, 100)
	for _, step := range []struct {
		name                string
		do                  func() error
		full                bool
		program, slot, used uint64
	}{
		{"program", func() error { return l.Reserve(0, 3, 30) }, false, 30, 30, 30},
		{"worker", func() error { return l.ReserveOwn(0, 3, 40) }, false, 30, 70, 70},
		{"other slot", func() error { return l.Reserve(0, 4, 20) }, false, 30, 70, 90},
		{"too much for the program", func() error { return l.Reserve(0, 3, 11) }, true, 30, 70, 90},
		{"too much for the worker", func() error { return l.ReserveOwn(0, 3, 11) }, true, 30, 70, 90},
		{"too much for the other slot", func() error { return l.Reserve(0, 4, 11) }, true, 30, 70, 90},
		{"all that is left", func() error { return l.ReserveOwn(0, 3, 10) }, false, 30, 80, 100},
		{"released by the program", func() error { l.Release(0, 3, 30); return nil }, false, 0, 50, 70},
		{"released by the worker", func() error { l.ReleaseOwn(0, 3, 20); return nil }, false, 0, 30, 50},
		{"released too much", func() error { l.Release(0, 3, 5); return nil }, false, 0, 30, 50},
		{"cleared", func() error { l.Clear(3); return nil }, false, 0, 0, 20},
	} {
		if err := step.do(); errors.Is(err, abi.OutOfMemory) != step.full || !step.full && err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		used, _ := l.Usage(0)
		if program, slot := l.ProgramUsage(0, 3), l.SlotUsage(0, 3); program != step.program || slot != step.slot ||
			used != step.used {
			t.Errorf(
				"%s: %d, %d and %d bytes, want %d, %d and %d",
				step.name,
				program,
				slot,
				used,
				step.program,
				step.slot,
				step.used,
			)
		}
	}
	if l.ProgramUsage(1, 3) != 0 || l.ProgramUsage(0, Slots) != 0 {
		t.Error("usage of a GPU or slot that does not exist is not 0")
	}
}
