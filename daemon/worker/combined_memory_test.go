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

// A program that copies from an unmapped address dies by a signal, so it must not be asked for such
// a copy.
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
		t.Error("the program was asked to copy")
		return len(p), nil
	}
	m := combinedMemory{direct: direct, throttle: new(helpThrottle), frozen: new(atomic.Bool)}
	for what, address := range map[string]int64{
		"begins at unmapped memory": 16,
		"ends at unmapped memory":   environmentStart(t, id.PID), // just below the end of the stack
	} {
		if _, err := m.move(make([]byte, minServedBytes), address, direct.ReadAt, served); !errors.Is(err, abi.InvalidValue) {
			t.Errorf("a range that %s: %v, want InvalidValue", what, err)
		}
	}
}

// After a slow helped copy some copies are done without help; then help is tried again.
func TestHelpPauses(t *testing.T) {
	var p helpThrottle
	expect := func(copies, wantHelped int, fast bool) {
		t.Helper()
		helped := 0
		for range copies {
			if p.allow() {
				helped++
				p.record(fast)
			}
		}
		if helped != wantHelped {
			t.Errorf("%d of %d copies with help, want %d", helped, copies, wantHelped)
		}
	}
	expect(2, 1, false)   // one without help
	expect(3, 1, false)   // then two
	expect(100, 8, false) // then 4, 8, at most maxPauses
	expect(maxPauses+10, 10, true)
	expect(3, 2, false) // a fast copy resets the pause
}

// Small copies never use help and do not count. A copy is slow if its rate is below slowRate.
func TestHelpMeasures(t *testing.T) {
	m := combinedMemory{throttle: new(helpThrottle), frozen: new(atomic.Bool)}
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
	}{
		{minServedBytes - 1, false},
		{minServedBytes, true},
		{minServedBytes - 1, false},
		{minServedBytes, false},
		{minServedBytes, true},
	} {
		helped = false
		if _, err := m.move(make([]byte, c.bytes), 0, own, slow); err != nil || helped != c.want {
			t.Errorf("copy %d of %d bytes: helped %t, %v; want %t", i, c.bytes, helped, err, c.want)
		}
	}
}
