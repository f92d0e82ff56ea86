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
	// The buffer is written when it holds bufferBytes, and at least every flushTime.
	bufferBytes = 64 << 10
	flushTime   = 200 * time.Millisecond
	// buffers is how many buffers may wait for a slow file. When all are full the program waits, at
	// most maxWait.
	buffers = 64
	maxWait = time.Second
	// tailBytes are reserved below the limit for the last line.
	tailBytes = 1 << 10
)

// DefaultLimit is the maximum size of a trace's file.
const DefaultLimit = 1 << 30

// Errors that end a trace before it is stopped.
var (
	ErrFull = errors.New("trace has reached its limit")
	ErrSlow = errors.New("trace file is too slow")
)

// Log writes the lines of one trace. A traced program never waits for long: a file that is slow,
// full or faulty ends the trace, not the program.
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

// New begins a trace of at most limit bytes. It takes ownership of the file.
func New(file io.WriteCloser, limit int, head Head) *Log {
	l := &Log{file: file, limit: limit, begun: head.Begun, chunks: make(chan []byte, buffers), done: make(chan struct{})}
	l.Write(head)
	go l.run()
	return l
}

// Begun returns when the trace began.
func (l *Log) Begun() time.Time { return l.begun }

// Write adds a line. After an error it does nothing.
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
	if call, ok := line.(*Call); ok && call.N > 0 {
		l.calls++
	}
	l.appendLine(text)
	if len(l.buffer) >= bufferBytes {
		l.flush()
	}
}

// appendLine adds a line to the buffer. The caller holds mu.
func (l *Log) appendLine(text []byte) {
	l.buffer = append(append(l.buffer, text...), '\n')
	l.bytes += len(text) + 1
}

// flush hands the buffer to the writing goroutine. The caller holds mu.
func (l *Log) flush() {
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
	case <-time.After(maxWait):
		l.failed = errors.Join(l.failed, ErrSlow)
	}
}

// run is the writing goroutine.
func (l *Log) run() {
	defer close(l.done)
	tick := time.NewTicker(flushTime)
	defer tick.Stop()
	for {
		select {
		case chunk, more := <-l.chunks:
			if !more {
				l.fail(l.file.Close())
				return
			}
			l.writeChunk(chunk)
		case <-tick.C:
			l.mu.Lock()
			var late []byte
			if len(l.chunks) == 0 {
				late, l.buffer = l.buffer, nil
			}
			l.mu.Unlock()
			l.writeChunk(late)
		}
	}
}

func (l *Log) writeChunk(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	_, err := l.file.Write(chunk)
	l.fail(err)
}

// fail ends the trace if err is an error of its file.
func (l *Log) fail(err error) {
	if err == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = errors.Join(l.failed, fmt.Errorf("write trace: %w", err))
}

// Close writes the last line. It returns the number of recorded calls and the error that ended the
// trace early. Each of several callers waits until the file is whole.
func (l *Log) Close() (calls uint64, err error) {
	l.writeTail()
	select {
	case <-l.done:
	case <-time.After(maxWait):
		return l.calls, ErrSlow
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, l.failed
}

// writeTail hands the last line to the writing goroutine, which then closes the file. It does so
// once.
func (l *Log) writeTail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	tail := Tail{Calls: l.calls}
	if l.failed != nil {
		tail.Error = l.failed.Error()
	}
	text, _ := json.Marshal(tail) // a number and a text
	l.appendLine(text)
	l.flush()
	close(l.chunks)
}
