package bench

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/tests/harness"
)

// holder is a program that holds device memory (testdata/memory.c), with the page that controls it.
type holder struct {
	*harness.Job // nil: a launch of a cluster
	t            *testing.T
	daemon       *harness.Daemon
	page         []byte
	bytes        uint64
	savedSteps   uint64 // its steps at the dump
}

// word is an index in the page, as in memory.c.
type word int

const (
	rewriteBytesPerSecond word = 0
	readBytesPerStep      word = 1
	spinTurnsPerStep      word = 2
	quit                  word = 3
	rewriteOnceChunks     word = 4

	steps          word = 8
	rewrittenBytes word = 9
	longestStepNs  word = 10
	rewrittenOnce  word = 11
	verified       word = 12
)

// startHolder starts a program with the given device memory, and waits until all of it is written.
func (b *bench) startHolder(t *testing.T, daemon *harness.Daemon, bytes uint64) *holder {
	t.Helper()
	return b.startHolderWith(t, daemon, bytes, nil)
}

// startHolderWith is startHolder for callers that change the program before it starts.
func (b *bench) startHolderWith(t *testing.T, daemon *harness.Daemon, bytes uint64, prepare func(*exec.Cmd)) *holder {
	t.Helper()
	return b.startProgram(t, daemon, b.compiledMemoryProgram(t), bytes, prepare)
}

// compiledMemoryProgram returns the path of the program.
func (b *bench) compiledMemoryProgram(t *testing.T) string {
	t.Helper()
	if b.memoryProgram == "" {
		// It must outlive this subtest.
		compiled, err := os.ReadFile(harness.CompileC(t, true, "testdata/memory.c"))
		if err != nil {
			t.Fatal(err)
		}
		b.memoryProgram = filepath.Join(b.disk, "memory")
		if err := os.WriteFile(b.memoryProgram, compiled, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return b.memoryProgram
}

// newPage makes the page by which a program is controlled.
func newPage(t *testing.T, path string) []byte {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	page, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(page) })
	return page
}

// startProgram starts a program that a page controls.
func (b *bench) startProgram(
	t *testing.T,
	daemon *harness.Daemon,
	program string,
	bytes uint64,
	prepare func(*exec.Cmd),
) *holder {
	t.Helper()
	path := filepath.Join(daemon.Dir, "page")
	page := newPage(t, path)
	h := &holder{
		Job: daemon.Job(t, program, path, fmt.Sprint(bytes/mebibyte)), t: t, daemon: daemon, page: page, bytes: bytes,
	}
	h.Prepare = prepare
	t.Cleanup(func() { _ = syscall.Kill(h.PID, syscall.SIGKILL) })
	h.Start()
	h.await("the memory is written", func() bool { return h.get(steps) > 0 })
	return h
}

// wordOf returns a word of a page.
func wordOf(page []byte, w word) uint64 { return binary.NativeEndian.Uint64(page[8*w:]) }

func (h *holder) get(w word) uint64        { return wordOf(h.page, w) }
func (h *holder) set(w word, value uint64) { binary.NativeEndian.PutUint64(h.page[8*w:], value) }

// await polls every half millisecond.
func (h *holder) await(what string, holds func() bool) {
	h.t.Helper()
	said := func() string { return "" }
	if h.Job != nil {
		said = h.Stderr
	}
	for start := time.Now(); !holds(); time.Sleep(500 * time.Microsecond) {
		if time.Since(start) > 10*harness.Patience {
			h.t.Fatalf("timed out: %s: %s", what, said())
		}
		if h.Job != nil && !h.Alive() {
			// A restored program does not exist at once.
			if time.Since(start) > harness.Patience {
				h.t.Fatalf("%s: program exited: %s", what, h.Stderr())
			}
		}
	}
}

// waitStep waits until a step ends that begins from now on.
func (h *holder) waitStep() {
	h.t.Helper()
	now := h.get(steps)
	h.await("a step", func() bool { return h.get(steps) >= now+2 })
}

// rate returns the steps per second, over some time or while during runs.
func (h *holder) rate(during func()) (stepsPerSecond float64) {
	h.waitStep()
	start, before := time.Now(), h.get(steps)
	during()
	return float64(h.get(steps)-before) / time.Since(start).Seconds()
}

// finish lets the program check all its memory and exit.
func (h *holder) finish() {
	h.t.Helper()
	h.set(quit, 1)
	h.await("the program ends", func() bool { return h.get(verified) == 1 || !h.Alive() })
	h.Finish()
	if h.get(verified) != 1 {
		h.t.Fatalf("the program found wrong memory: %s", h.Stderr())
	}
	if text, _ := os.ReadFile(filepath.Join(h.Dir, "out")); !strings.HasPrefix(string(text), "ok memory") {
		h.t.Fatalf("the program did not print ok: %q %s", text, h.Stderr())
	}
}
