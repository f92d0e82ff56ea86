// Package devprintf delivers what kernels print. The driver writes device printf to the process's
// standard output, so Capture replaces that by a pipe. Tested by tests/nested.
package devprintf

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// capture reads the pipe that is standard output.
type capture struct {
	mu        sync.Mutex
	active    bool
	listeners []*Listener // the last one gets the text
	write     int         // write end of the pipe
	former    *os.File    // referenced, because its finalizer would close standard output
	markers   uint64      // number of flushes
	flushes   map[uint64]chan struct{}
}

var stdout = capture{flushes: map[uint64]chan struct{}{}}

const standardOutput = 1

// A flush writes a marker to the pipe: markerPrefix, a number, and a newline. Everything written
// before has been read when the marker is read. maxMarkerBytes is an upper bound of its length.
const maxMarkerBytes = 64

var markerPrefix = []byte("\x00\x01phos flush ")

// Capture makes standard output a pipe, once per process. os.Stdout then refers to the previous
// standard output.
func Capture() error {
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	if stdout.active {
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
		return err // descriptors stay open: the process exits on this error
	}
	stdout.active, stdout.write, stdout.former = true, ends[1], os.Stdout
	os.Stdout = os.NewFile(uintptr(former), "stdout")
	go stdout.read(os.NewFile(uintptr(ends[0]), "device printf"))
	return nil
}

// Listener receives the captured text.
type Listener struct{ output func([]byte) }

// Listen registers a function for the captured text. Only the latest listener receives it.
func Listen(output func([]byte)) *Listener {
	l := &Listener{output}
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	stdout.listeners = append(stdout.listeners, l)
	return l
}

// Close removes the listener. It does nothing for nil.
func (l *Listener) Close() {
	stdout.mu.Lock()
	defer stdout.mu.Unlock()
	stdout.listeners = slices.DeleteFunc(stdout.listeners, func(other *Listener) bool { return other == l })
}

// read delivers the pipe's content until the process exits.
func (c *capture) read(pipe *os.File) {
	buffer := make([]byte, 64<<10)
	var kept []byte // possibly the beginning of a marker
	for {
		n, err := pipe.Read(buffer)
		kept = c.split(append(kept, buffer[:n]...))
		if err != nil {
			return
		}
	}
}

// split delivers the text between markers, and returns an incomplete marker at the end.
func (c *capture) split(text []byte) (kept []byte) {
	for {
		at := bytes.Index(text, markerPrefix)
		if at < 0 {
			break
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			c.deliver(text[:at])
			return slices.Clone(text[at:])
		}
		c.deliver(text[:at])
		var number uint64
		_, _ = fmt.Sscanf(string(text[at+len(markerPrefix):at+end]), "%d", &number)
		c.flushed(number)
		text = text[at+end+1:]
	}
	// Writing a marker is atomic, but a read may end within it.
	if at := bytes.LastIndexByte(text[max(0, len(text)-maxMarkerBytes):], 0); at >= 0 {
		at += max(0, len(text)-maxMarkerBytes)
		if bytes.HasPrefix(markerPrefix, text[at:]) {
			c.deliver(text[:at])
			return slices.Clone(text[at:])
		}
	}
	c.deliver(text)
	return nil
}

// deliver passes text to the latest listener.
func (c *capture) deliver(text []byte) {
	c.mu.Lock()
	var output func([]byte)
	if n := len(c.listeners); n > 0 {
		output = c.listeners[n-1].output
	}
	c.mu.Unlock()
	if output != nil && len(text) > 0 {
		output(text)
	}
}

// flushed wakes the flush with this number.
func (c *capture) flushed(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if done := c.flushes[number]; done != nil {
		close(done)
		delete(c.flushes, number)
	}
}

// Flush waits until everything written so far has been delivered.
func Flush() {
	stdout.mu.Lock()
	stdout.markers++
	number, done := stdout.markers, make(chan struct{})
	stdout.flushes[number] = done
	stdout.mu.Unlock()
	if _, err := unix.Write(stdout.write, fmt.Appendf(nil, "%s%d\n", markerPrefix, number)); err != nil {
		stdout.flushed(number)
	}
	<-done
}
