package worker

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// A program that is asked to copy what is no memory of its own ends by a signal, so it must not be
// asked.
func TestHelpOnlyWithMemory(t *testing.T) {
	child := exec.Command("sleep", "1000")
	child.Env = []string{"PHOS_TEST_WORD=a"}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	id, err := proc.Of(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	direct := processMemory{program: id}
	served := func(p []byte, _ int64) (int, error) {
		t.Error("the program was asked")
		return len(p), nil
	}
	m := eitherMemory{direct: direct, patience: new(patience), frozen: new(atomic.Bool)}
	for what, address := range map[string]int64{
		"begins at no memory": 16,
		"ends at no memory":   environmentStart(t, id.PID), // just below the end of the stack
	} {
		if _, err := m.move(make([]byte, servedBytes), address, direct.ReadAt, served); !errors.Is(err, abi.InvalidValue) {
			t.Errorf("a range that %s: %v, want InvalidValue", what, err)
		}
	}
}

// After a helped copy that was slow, some go without help; the next one tries again.
func TestHelpPauses(t *testing.T) {
	var p patience
	expect := func(copies, wantHelped int, fast bool) {
		t.Helper()
		helped := 0
		for range copies {
			if p.asks() {
				helped++
				p.note(fast)
			}
		}
		if helped != wantHelped {
			t.Errorf("%d of %d copies with help, want %d", helped, copies, wantHelped)
		}
	}
	expect(2, 1, false)   // one goes without
	expect(3, 1, false)   // then two
	expect(100, 8, false) // then 4, 8, and never more than mostPauses
	expect(mostPauses+10, 10, true)
	expect(3, 2, false) // as if there had been none before
}

// Copies that are too small for help are not asked about; slow is what takes longer than slowRate.
func TestHelpMeasures(t *testing.T) {
	m := eitherMemory{patience: new(patience), frozen: new(atomic.Bool)}
	helped := false
	own := func(p []byte, _ int64) (int, error) { return len(p), nil }
	slow := func(p []byte, _ int64) (int, error) {
		helped = true
		time.Sleep(2 * time.Duration(len(p)/slowRate) * time.Nanosecond)
		return len(p), nil
	}
	for i, c := range []struct {
		bytes int
		want  bool
	}{{servedBytes - 1, false}, {servedBytes, true}, {servedBytes - 1, false}, {servedBytes, false}, {servedBytes, true}} {
		helped = false
		if _, err := m.move(make([]byte, c.bytes), 0, own, slow); err != nil || helped != c.want {
			t.Errorf("copy %d of %d bytes: helped %t, %v; want %t", i, c.bytes, helped, err, c.want)
		}
	}
}
