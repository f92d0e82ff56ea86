package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// bufferBytes are written at a time, and no later than flushTime after they came.
	bufferBytes = 64 << 10
	flushTime   = 200 * time.Millisecond
	// buffers may wait for a slow file; then the program does, for as long as patience lasts.
	buffers  = 64
	patience = time.Second
	// tailBytes are kept free below the limit for the last line.
	tailBytes = 1 << 10
)

// DefaultLimit is how long the file of a trace may become.
const DefaultLimit = 1 << 30

// Errors that end a trace before it is stopped.
var (
	ErrFull = errors.New("the trace has reached its limit")
	ErrSlow = errors.New("the trace's file takes nothing more for too long")
)

// Log writes the lines of one trace. A program that is traced never waits for long: a file that is
// slower, full or faulty ends the trace and not the program.
type Log struct {
	file   io.WriteCloser
	limit  int
	begun  time.Time
	chunks chan []byte
	done   chan struct{}

	mu     sync.Mutex // guards all below
	buffer []byte
	bytes  int
	calls  uint64
	failed error
	closed bool
}

// New begins a trace of at most limit bytes. The file is the Log's from here on.
func New(file io.WriteCloser, limit int, head Head) *Log {
	l := &Log{file: file, limit: limit, begun: head.Begun, chunks: make(chan []byte, buffers), done: make(chan struct{})}
	l.Write(head)
	go l.write()
	return l
}

// Begun is when the trace began.
func (l *Log) Begun() time.Time { return l.begun }

// Write adds a line. Once something has gone wrong it does nothing.
func (l *Log) Write(line any) {
	text, err := json.Marshal(line)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.failed != nil {
		return
	}
	if err == nil && l.bytes+len(text)+1 > l.limit-tailBytes {
		err = fmt.Errorf("%w of %d bytes", ErrFull, l.limit)
	}
	if err != nil {
		l.failed = err
		return
	}
	if call, is := line.(*Call); is && call.N > 0 {
		l.calls++
	}
	l.add(text)
	if len(l.buffer) >= bufferBytes {
		l.pass()
	}
}

func (l *Log) add(text []byte) {
	l.buffer = append(append(l.buffer, text...), '\n')
	l.bytes += len(text) + 1
}

// pass hands the buffer over to be written. mu is held.
func (l *Log) pass() {
	if len(l.buffer) == 0 {
		return
	}
	full := l.buffer
	l.buffer = make([]byte, 0, bufferBytes+bufferBytes/4)
	select {
	case l.chunks <- full:
		return
	default:
	}
	select {
	case l.chunks <- full:
	case <-time.After(patience):
		l.failed = errors.Join(l.failed, ErrSlow)
	}
}

// write is the goroutine that writes.
func (l *Log) write() {
	defer close(l.done)
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	for {
		select {
		case chunk, more := <-l.chunks:
			if !more {
				return
			}
			l.put(chunk)
		case <-tick.C:
			l.mu.Lock()
			var late []byte
			if len(l.chunks) == 0 {
				late, l.buffer = l.buffer, nil
			}
			l.mu.Unlock()
			l.put(late)
		}
	}
}

func (l *Log) put(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	if _, err := l.file.Write(chunk); err != nil {
		l.mu.Lock()
		l.failed = errors.Join(l.failed, fmt.Errorf("write the trace: %w", err))
		l.mu.Unlock()
	}
}

// Close writes the last line and says how many calls were written down, and why no more.
func (l *Log) Close() (calls uint64, err error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.done
		return l.calls, l.failed
	}
	l.closed = true
	tail := Tail{Calls: l.calls}
	if l.failed != nil {
		tail.Error = l.failed.Error()
	}
	text, _ := json.Marshal(tail) // a number and a text
	l.add(text)
	l.pass()
	close(l.chunks)
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(patience):
		return l.calls, ErrSlow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); err != nil {
		l.failed = errors.Join(l.failed, fmt.Errorf("write the trace: %w", err))
	}
	return l.calls, l.failed
}
