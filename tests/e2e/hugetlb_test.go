package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/phos-gpu/phos/tests/harness"
)

// hugePages is the machine's number of reserved huge pages.
const hugePages = "/proc/sys/vm/nr_hugepages"

// reserveHugePages reserves huge pages for a test, which is skipped where the machine has none.
func reserveHugePages(t *testing.T, want int) {
	t.Helper()
	before, err := os.ReadFile(hugePages)
	if err != nil {
		t.Skip("this kernel has no huge pages: ", err)
	}
	var had, has int
	if _, err := fmt.Sscan(string(before), &had); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.WriteFile(hugePages, before, 0) })
	if err := os.WriteFile(hugePages, fmt.Append(nil, had+want), 0); err != nil {
		t.Skip("huge pages cannot be reserved: ", err)
	}
	now, err := os.ReadFile(hugePages)
	if err == nil {
		_, err = fmt.Sscan(string(now), &has)
	}
	if err != nil || has < had+want {
		t.Skipf("the kernel reserves %d huge pages of %d: %v", has-had, want, err)
	}
}

// TestHugePages registers memory in huge pages, for copies and for kernels: those that are shared
// are reached, the others refused by name.
func TestHugePages(t *testing.T) {
	reserveHugePages(t, 4)
	daemon := harness.Start(t)
	program := daemon.Program(harness.CompileC(t, true, harness.Workload("driver", "hugetlb.c"))).In(t)
	if err := program.Run(); err != nil {
		t.Fatalf("%v: %s", err, program.Output.String())
	}
	for _, says := range []string{
		"private: refused", "private memory in huge pages (map it with MAP_SHARED) is not supported",
		"shared: reached", "ok hugetlb",
	} {
		if said := program.Output.String(); !strings.Contains(said, says) {
			t.Errorf("%q, want %q in it", said, says)
		}
	}
	if log, err := os.ReadFile(daemon.Log); err != nil || strings.Contains(string(log), "unmap registered memory") {
		t.Errorf("the worker keeps a mapping: %v", err)
	}
	daemon.Empty()
}
