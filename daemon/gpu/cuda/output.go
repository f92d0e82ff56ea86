package cuda

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/cgo/cudadrv"
)

// printer passes on what kernels print. The driver writes it to the process's standard output,
// which is a pipe here.
type printer struct {
	mu       sync.Mutex
	taken    bool
	contexts []*Context // who wants it; the last one gets it
	write    int        // the pipe's end
	former   *os.File   // kept: without users it would close standard output, which is the pipe now
	marks    uint64     // flushes asked for
	flushed  map[uint64]chan struct{}
}

var prints = printer{flushed: map[uint64]chan struct{}{}}

const standardOutput = 1

// markBytes bounds a mark: what tells that everything before it has been read.
const markBytes = 64

var markBegin = []byte("\x00\x01phos flush ")

// TakeOutput makes standard output a pipe, once for the process; Open does so. os.Stdout goes on to
// where it went, for those who look at it later.
func TakeOutput() error {
	prints.mu.Lock()
	defer prints.mu.Unlock()
	if prints.taken {
		return nil
	}
	var ends [2]int
	former, err := unix.FcntlInt(standardOutput, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Pipe2(ends[:], unix.O_CLOEXEC)
	}
	if err == nil {
		err = unix.Dup3(ends[1], standardOutput, 0)
	}
	if err != nil {
		return err // what was opened is left: nobody goes on without
	}
	prints.taken, prints.write, prints.former = true, ends[1], os.Stdout
	os.Stdout = os.NewFile(uintptr(former), "stdout")
	go prints.read(os.NewFile(uintptr(ends[0]), "what kernels print"))
	return nil
}

func (p *printer) add(c *Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contexts = append(p.contexts, c)
}

func (p *printer) remove(c *Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.contexts = slices.DeleteFunc(p.contexts, func(other *Context) bool { return other == c })
}

// read passes on all there is until the process ends.
func (p *printer) read(pipe *os.File) {
	buffer := make([]byte, 64<<10)
	var kept []byte // the begin of a mark, perhaps
	for {
		n, err := pipe.Read(buffer)
		kept = p.pass(append(kept, buffer[:n]...))
		if err != nil {
			return
		}
	}
}

// pass takes text apart at the marks, and returns what may be the begin of one.
func (p *printer) pass(text []byte) (kept []byte) {
	for {
		at := bytes.Index(text, markBegin)
		if at < 0 {
			break
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			p.deliver(text[:at])
			return slices.Clone(text[at:])
		}
		p.deliver(text[:at])
		var number uint64
		_, _ = fmt.Sscanf(string(text[at+len(markBegin):at+end]), "%d", &number)
		p.reached(number)
		text = text[at+end+1:]
	}
	// The pipe keeps a mark whole, but a read may end within it.
	if at := bytes.LastIndexByte(text[max(0, len(text)-markBytes):], 0); at >= 0 {
		at += max(0, len(text)-markBytes)
		if bytes.HasPrefix(markBegin, text[at:]) {
			p.deliver(text[:at])
			return slices.Clone(text[at:])
		}
	}
	p.deliver(text)
	return nil
}

func (p *printer) deliver(text []byte) {
	p.mu.Lock()
	var output func([]byte)
	if n := len(p.contexts); n > 0 {
		output = p.contexts[n-1].output
	}
	p.mu.Unlock()
	if output != nil && len(text) > 0 {
		output(text)
	}
}

func (p *printer) reached(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.flushed[number]; done != nil {
		close(done)
		delete(p.flushed, number)
	}
}

// flush waits until everything that was printed has been passed on.
func (c *Context) flush() {
	if !c.prints.Load() || c.output == nil {
		return
	}
	cudadrv.Flush()
	prints.mu.Lock()
	prints.marks++
	number, done := prints.marks, make(chan struct{})
	prints.flushed[number] = done
	prints.mu.Unlock()
	if _, err := unix.Write(prints.write, fmt.Appendf(nil, "%s%d\n", markBegin, number)); err != nil {
		prints.reached(number)
	}
	<-done
}
