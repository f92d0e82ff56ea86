package wire

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Output is the worker's end of the ring of what kernels print. It is safe for concurrent use.
type Output struct {
	head, tail *atomic.Uint64
	data       []byte

	mu   sync.Mutex
	lost uint64 // bytes that found no room, and of which the program has not been told
}

// Output is the file's output ring.
func (f *File) Output() *Output {
	return &Output{
		head: f.Word64(WordOutputHead),
		tail: f.Word64(WordOutputTail),
		data: f.Region(OutputOffset, OutputBytes),
	}
}

// Write passes text on to the program, which prints it when it next waits for something. It never
// blocks: as on hardware, what finds no room is lost, and a line says so.
func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := text
	if o.lost > 0 {
		whole = fmt.Appendf(nil, "[phos: %d bytes of kernel output lost]\n%s", o.lost, text)
	}
	if o.put(whole) {
		o.lost = 0
	} else {
		o.lost += uint64(len(text))
	}
	return len(text), nil
}

func (o *Output) put(text []byte) bool {
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
