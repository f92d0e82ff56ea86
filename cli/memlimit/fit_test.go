package memlimit_test

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/phos-gpu/phos/cli/memlimit"
)

// TestFit: the limit is above the memory in use, by less than half, and never falls.
func TestFit(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	const bytes = 200 << 20
	used := make([]byte, bytes)
	runtime.GC()
	memlimit.Fit()
	if limit := debug.SetMemoryLimit(-1); limit < bytes*5/4 || limit > bytes*3/2 {
		t.Errorf("with %d bytes in use the limit is %d", bytes, limit)
	}
	runtime.KeepAlive(used)
	runtime.GC()
	memlimit.Fit()
	if limit := debug.SetMemoryLimit(-1); limit < bytes*5/4 {
		t.Errorf("the limit fell to %d", limit)
	}
}

// TestEnvironment: the environment's own rule remains.
func TestEnvironment(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOGC", "100")
	memlimit.Fit()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		t.Errorf("the limit is %d", limit)
	}
}
