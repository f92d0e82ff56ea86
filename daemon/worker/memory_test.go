package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/internal/linux/proc"
)

// The environment of a child is memory at a known address: /proc/PID/stat has it.
func TestProcessMemory(t *testing.T) {
	const secret = "PHOS_TEST_WORD=abcdefgh"
	child := exec.Command("sleep", "1000")
	child.Env = []string{secret}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()
	id, err := proc.Of(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	memory := processMemory{program: id}
	// Start returns once exec has closed the inherited descriptors, shortly before the kernel sets
	// env_start.
	begin := environmentStart(t, id.PID)
	for begin == 0 {
		begin = environmentStart(t, id.PID)
	}
	got := make([]byte, len(secret))
	if count, err := memory.ReadAt(got, begin); err != nil || count != len(got) || string(got) != secret {
		t.Fatalf("read %q, %d, %v", got, count, err)
	}
	if _, err := memory.WriteAt([]byte("ABCD"), begin+int64(strings.Index(secret, "abcd"))); err != nil {
		t.Fatal(err)
	}
	seen, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", id.PID))
	if err != nil || !bytes.Contains(seen, []byte("PHOS_TEST_WORD=ABCDefgh")) {
		t.Errorf("environment is %q, %v", seen, err)
	}
	if _, err := memory.ReadAt(got, 16); !errors.Is(err, abi.InvalidValue) {
		t.Errorf("read of an unmapped page: %v, want InvalidValue", err)
	}
}

// environmentStart returns field 50 of the stat line, env_start.
func environmentStart(t *testing.T, pid int) int64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var address int64
	if _, err := fmt.Sscan(fields[50-3], &address); err != nil {
		t.Fatal(err)
	}
	return address
}
