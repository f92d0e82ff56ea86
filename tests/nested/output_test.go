package nested

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cgo/cudadrv"
	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/cuda"
	"github.com/phos-gpu/phos/tests/harness/scarce"
)

// leaveOutput keeps the process of a single test from capturing kernel output before that test
// begins.
const leaveOutput = "PHOS_TEST_LEAVE_OUTPUT"

// printing is code with a kernel that prints a line.
const printing = `.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 printed) vprintf(.param .b64 format, .param .b64 values);
.global .align 1 .b8 line[4] = {104, 105, 10, 0};
.visible .entry say() {
	.reg .b64 %d; .reg .b32 %r;
	.param .b64 format; .param .b64 values; .param .b32 printed;
	mov.u64 %d, line; cvta.global.u64 %d, %d; st.param.b64 [format], %d;
	mov.u64 %d, 0; st.param.b64 [values], %d;
	call (printed), vprintf, (format, values); ld.param.b32 %r, [printed];
	ret;
}
`

// printer is a context whose kernel output is collected.
type printer struct {
	*backendTest
	mu   sync.Mutex
	text strings.Builder
	say  gpu.Work
}

func openPrinter(t *testing.T) *printer {
	t.Helper()
	p := &printer{backendTest: openBackend(t)}
	var err error
	p.context, err = p.backend.NewContext(0, gpu.ContextOptions{Output: func(text []byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.text.Write(text)
	}})
	p.must(err)
	module, err := p.context.LoadModule(gpu.Image{PTX: []string{printing}}, gpu.LoadOptions{})
	p.must(err)
	function, err := module.Function("say")
	p.must(err)
	p.say = gpu.Launch{Function: function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	return p
}

func (p *printer) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// TestOutputInPieces writes like kernels do. Reads end within marks, and within text that only
// begins like a mark.
func TestOutputInPieces(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	p := openPrinter(t)
	want := ""
	for _, piece := range []struct{ written, shown string }{
		{"one\x00\x01phos flush 12", "one"},
		{"3\ntwo\x00\x01pho", "two"},
		{"nes\nthree\x00", "\x00\x01phones\nthree"},
		{"four\n", "\x00four\n"},
	} {
		_, err := unix.Write(unix.Stdout, []byte(piece.written))
		p.must(err)
		want += piece.shown
		p.waitFor(strconv.Quote(want)+" is not shown", func() bool { return len(p.printed()) >= len(want) })
	}
	s := p.stream()
	p.submit(s, p.say)
	p.must(s.Synchronize())
	if got := p.printed(); got != want+"hi\n" {
		t.Errorf("got %q, want %q", got, want+"hi\n")
	}
}

// TestLostOutput: when the pipe for kernel output is closed, only that output is lost, and nothing
// blocks.
func TestLostOutput(t *testing.T) {
	if !ownProcess(t, oneGPU) {
		return
	}
	p := openPrinter(t)
	s := p.stream()
	say := func() {
		t.Helper()
		p.submit(s, p.say)
		p.must(s.Synchronize())
	}
	say()
	nothing, err := os.Open(os.DevNull)
	p.must(err)
	defer nothing.Close()
	p.must(unix.Dup2(int(nothing.Fd()), p.readEnd(unix.Stdout)))
	for range 3 { // the reader waits on the old pipe, then looks for the next one and finds none
		say()
	}
	if got := p.printed(); !strings.HasPrefix(got, "hi\n") || len(got) > 2*len("hi\n") {
		t.Errorf("got %q", got)
	}
	p.must(p.context.Fault())
}

// readEnd returns the descriptor that reads what is written to another one.
func (p *printer) readEnd(of int) int {
	p.Helper()
	name := func(fd string) string {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", fd))
		return to
	}
	entries, err := os.ReadDir("/proc/self/fd")
	p.must(err)
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		p.must(err)
		if name(entry.Name()) != name(strconv.Itoa(of)) {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
			return fd
		}
	}
	p.Fatal("no process reads the output")
	return -1
}

// TestNoOutput: without a free descriptor for a pipe, the backend does not open, and gives the
// reason.
func TestNoOutput(t *testing.T) {
	t.Setenv(leaveOutput, "1")
	if !ownProcess(t, oneGPU) {
		return
	}
	if _, err := cudadrv.Open(library()); err != nil {
		t.Fatal(err)
	}
	for files := range 3 {
		enough := scarce.Files(t, files)
		_, err := cuda.Open(cuda.Options{Library: library(), Logger: logger()})
		if !errors.Is(err, unix.EMFILE) || !strings.HasPrefix(err.Error(), "redirect standard output for device printf: ") {
			t.Errorf("with %d more files: got %v", files, err)
		}
		enough()
	}
}
