package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cluster/linelog"
)

// TestReadLate: what is in the pipes when the time to drain them is over is in the log, though a
// process outside holds them open.
func TestReadLate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	lines, err := linelog.Create(dir, linelog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	o := newOutput(lines)
	o.mu.Lock() // no goroutine of o gets to read
	theirs, err := o.open(0, uint32(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	out, complaints := os.NewFile(uintptr(theirs[0]), "out"), os.NewFile(uintptr(theirs[1]), "err")
	defer out.Close()
	defer complaints.Close()
	const capacity = 8 * pipeBytes
	if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, capacity); err != nil {
		t.Fatal(err)
	}
	for pipe, bytes := range map[*os.File]int{out: capacity, complaints: pipeBytes} {
		if _, err := pipe.WriteString(strings.Repeat("x", bytes)); err != nil {
			t.Fatal(err)
		}
	}
	drained := make(chan struct{})
	go func() { defer close(drained); o.drain(0) }()
	o.mu.Unlock()
	<-drained
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	got := map[linelog.Stream]int{}
	r := linelog.Open(dir, linelog.Position{})
	defer r.Close()
	err = r.Follow(t.Context(), func(e linelog.Entry) error {
		got[e.Stream] += len(e.Text)
		return nil
	})
	if err != nil || got[linelog.Out] != capacity || got[linelog.Err] != pipeBytes {
		t.Errorf("%v bytes are in the log, want %d and %d; %v", got, capacity, pipeBytes, err)
	}
}
