package sessions

import (
	"testing"
	"time"

	"github.com/phos-gpu/phos/daemon/phosd/sessions/rundir"
)

// TestUntilBusy: no program fills a quarter of the memory between two looks, and memory that is
// hardly used is hardly looked at.
func TestUntilBusy(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		name      string
		all, free uint64
		want      time.Duration
	}{
		{"large and empty", 512 * gib, 512 * gib, time.Second},
		{"empty", 16 * gib, 16 * gib, time.Second / 4},
		{"half a GiB below a quarter", 16 * gib, 12*gib + gib/2, minLook},
		{"a quarter is used", 16 * gib, 12 * gib, minLook},
		{"full", 16 * gib, 0, minLook},
		{"small and empty", gib, gib, minLook},
		{"no file system", 0, 0, minLook},
	} {
		if got := untilBusy(rundir.Space{AllBytes: test.all, FreeBytes: test.free}); got != test.want {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}
