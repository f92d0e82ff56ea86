package wire

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Output is the worker's end of the output ring for device printf. It is safe for concurrent use.
type Output struct {
	head, tail *atomic.Uint64
	data       []byte

	mu   sync.Mutex
	lost uint64 // dropped bytes that were not yet reported to the program
}

// Output returns the file's output ring.
func (f *File) Output() *Output {
	return &Output{
		head: f.Word64(WordOutputHead),
		tail: f.Word64(WordOutputTail),
		data: f.Region(OutputOffset, OutputBytes),
	}
}

// Write passes text to the program, which prints it at its next synchronizing call. It never
// blocks. As on hardware, text that does not fit is dropped; a later line says so.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := text
	if o.lost > 0 {
		whole = fmt.Appendf(nil, "[phos: %d bytes of kernel output lost]\n%s", o.lost, text)
	}
	if o.write(whole) {
		o.lost = 0
	} else {
		o.lost += uint64(len(text))
	}
	return len(text), nil
}

// write writes text to the ring, and reports whether it fit.
func (o *Output) write(text []byte) bool {
	head := o.head.Load()
	used := head - o.tail.Load()
	if used > OutputBytes || uint64(len(text)) > OutputBytes-used {
		return false
	}
	first := copy(o.data[head%OutputBytes:], text)
	copy(o.data, text[first:])
	o.head.Store(head + uint64(len(text)))
	return true
}
