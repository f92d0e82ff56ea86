package linelog

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
)

// copyAll mirrors what is new of a log since an offset, and returns where the next copy begins.
func copyAll(t *testing.T, from, to string, next int64, most int, limit int64) int64 {
	t.Helper()
	for {
		offset, records, err := End(from, next, most)
		if errors.Is(err, io.EOF) {
			return next
		}
		if err == nil {
			next, err = Mirror(to, offset, records, limit)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestMirror: a copy that is made while the log grows has the same entries.
func TestMirror(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		w, dir := create(t, Limits{TotalBytes: leastTotal})
		to := filepath.Join(t.TempDir(), "copy")
		out, next := w.Source(0, Out), int64(0)
		for i := range 3000 {
			out.Write(fmt.Appendf(nil, "line %d of %*d\n", i, random.IntN(100), round))
			if random.IntN(200) == 0 {
				w.flush()
				next = copyAll(t, dir, to, next, 1<<30, 1<<30)
				if again := copyAll(t, dir, to, 0, 1<<30, 1<<30); again != next {
					t.Fatalf("a copy from the beginning ends at %d, the first one at %d", again, next)
				}
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		copyAll(t, dir, to, next, 1<<30, 1<<30)
		original, copied := Open(dir, Position{}), Open(to, Position{})
		same(t, all(t, copied), all(t, original)...)
		if !copied.Ended() {
			t.Error("the copy does not end")
		}
	}
}

// TestMirrorOfEnd: of a log that grows faster than it is copied, the last whole records are there,
// and a Reader is told that some are missing.
func TestMirrorOfEnd(t *testing.T) {
	w, dir := create(t, Limits{TotalBytes: leastTotal})
	to := filepath.Join(t.TempDir(), "copy")
	out, next := w.Source(0, Out), int64(0)
	for i := range 2000 {
		out.Write(fmt.Appendf(nil, "line %d\n", i))
		if i%500 == 0 {
			w.flush()
			next = copyAll(t, dir, to, next, 1000, 1500)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	copyAll(t, dir, to, next, 1000, 1500)
	if size := total(t, to); size > 1500 {
		t.Errorf("the copy has %d bytes", size)
	}
	r := Open(to, Position{})
	lines := all(t, r)
	same(t, lines[len(lines)-1:], "0 out line 1999")
	if first, err := Open(to, Position{}).Next(); err != nil || first.Lost == nil || first.Lost.Reason != Rotated {
		t.Errorf("it begins with %+v, %v", first, err)
	}
	if !r.Ended() {
		t.Error("it does not end")
	}
}

// TestMirrorRefuses what End never reads.
func TestMirrorRefuses(t *testing.T) {
	for _, bad := range []struct {
		offset  int64
		records string
	}{{-1, "x\n"}, {0, ""}, {0, "torn"}} {
		if _, err := Mirror(t.TempDir(), bad.offset, []byte(bad.records), 1000); !errors.Is(err, ErrMirror) {
			t.Errorf("%d, %q: %v", bad.offset, bad.records, err)
		}
	}
}
