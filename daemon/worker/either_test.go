package worker

import (
	"errors"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/process"
	"github.com/phos-gpu/phos/hijack/abi"
)

// A program that is asked to copy what is no memory of its own ends by a signal, so it must not be asked.
func TestHelpOnlyWithMemory(t *testing.T) {
	child := exec.Command("sleep", "1000")
	child.Env = []string{"PHOS_TEST_WORD=a"}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	id, err := process.Of(child.Process.Pid)
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
	var own, helped int
	slow := true
	move := func(p []byte, _ int64) (int, error) {
		if len(p) > 1 {
			own++
		}
		return len(p), nil
	}
	help := func(p []byte, _ int64) (int, error) {
		helped++
		if slow {
			time.Sleep(time.Duration(len(p)/slowRate) * time.Nanosecond)
		}
		return len(p), nil
	}
	m := eitherMemory{patience: new(patience), frozen: new(atomic.Bool)}
	copyAll := func(times, bytes int) {
		for range times {
			if _, err := m.move(make([]byte, bytes), 0, move, help); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(wantOwn, wantHelped int) {
		t.Helper()
		if own != wantOwn || helped != wantHelped {
			t.Errorf("%d copies alone, %d with help; want %d, %d", own, helped, wantOwn, wantHelped)
		}
		own, helped = 0, 0
	}
	copyAll(2, servedBytes)
	expect(1, 1)
	copyAll(1, servedBytes)
	copyAll(3, servedBytes-1) // too small for help, and no part of the pause
	copyAll(2, servedBytes)
	expect(3+2, 1)
	copyAll(100, servedBytes)
	expect(4+8+5*mostPauses, 8) // 4 alone after the first, 8 after the second, then never more than mostPauses
	slow = false
	copyAll(mostPauses+10, servedBytes)
	expect(mostPauses, 10)
}
