package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// memoryFile is an in-memory file.
type memoryFile struct{ bytes.Buffer }

func (*memoryFile) Close() error { return nil }

// last returns the tail of a trace and checks that every line is JSON.
func last(t *testing.T, text []byte) (tail Tail, lines int) {
	t.Helper()
	for line := range bytes.Lines(text) {
		tail = Tail{}
		if err := json.Unmarshal(line, &tail); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		lines++
	}
	return tail, lines
}

func TestLimit(t *testing.T) {
	const limit = 10_000
	var file memoryFile
	log := New(&file, limit, Head{Trace: Version, Begun: time.Now()})
	for n := range uint64(1000) {
		log.Write(&Call{N: n + 1, Call: "launch"})
	}
	calls, err := log.Close()
	if !errors.Is(err, ErrFull) || file.Len() > limit {
		t.Errorf("%d bytes, %v", file.Len(), err)
	}
	tail, lines := last(t, file.Bytes())
	if tail.Calls != calls || tail.Error == "" || calls == 0 || lines != int(calls)+2 {
		t.Errorf("%d calls, %d lines, the last is %+v", calls, lines, tail)
	}
}

func TestClosedTwice(t *testing.T) {
	var file memoryFile
	log := New(&file, DefaultLimit, Head{Trace: Version})
	log.Write(&Call{N: 1})
	log.Write(&Call{}) // events outside of calls do not count
	for range 2 {
		if calls, err := log.Close(); calls != 1 || err != nil {
			t.Errorf("%d calls, %v", calls, err)
		}
		log.Write(&Call{N: 2})
	}
	if tail, lines := last(t, file.Bytes()); tail.Calls != 1 || lines != 4 {
		t.Errorf("%d lines, the last is %+v", lines, tail)
	}
}

// TestStuck checks that a pipe without a reader ends the trace and does not block the program.
func TestStuck(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log := New(write, DefaultLimit, Head{Trace: Version})
	line := &Call{N: 1, Call: string(bytes.Repeat([]byte("x"), bufferBytes/2))}
	for range 4 * buffers { // must not wait for each write
		log.Write(line)
	}
	if _, err := log.Close(); !errors.Is(err, ErrSlow) {
		t.Errorf("Close: got %v, want ErrSlow", err)
	}
	go func() { _, _ = io.Copy(io.Discard, read) }()
	<-log.done
	_, _ = read.Close(), write.Close()
}
